"""The time and memory of ``pixconnect verify`` over 1 and 10 million entries, and then over the changes of a day.

``verify_<entries>``, one after the other on one service: holders with a history written in SQL, Pix received over the
last hundred days, each with its entry, in the order of time, and chained by the workers' function. Their events are
past their retention and dropped, so transfers, entries and chain are read.

- ``whole``, ``day``: ``pixconnect verify --whole``, and ``pixconnect verify`` after transfers of other holders for
  ``--seconds`` with their events (``day_transfers``, each of two entries): ``seconds`` until its end, ``peak_mib`` of
  its process, ``server_mib``, the greatest private memory of PostgreSQL's processes; ``cpu_s`` of both; ``load``, the
  number of processes that ran or waited for a core in its last minute: beside other load, seconds say little;
- ``filled_s``, ``chained_s``: the seconds for writing and chaining the history.

Any finding ends the measure. The rail is left out, since it does not have the written history.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import uvloop

from bench.figures import Row
from bench.harness.installation import Account, Installation, installed
from bench.harness.processes import CpuMeter, resident_mib
from bench.measures.end_to_end import TRANSFER_TOLD, repeat_story, settle_transfer
from bench.measures.growth import skip_ids
from pixconnect.doors.cli import operating
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.tables.partition import PARENTS
from support.records import a_new_holder

IN_FLIGHT = 64
LIVING_COUNT = 100  # holders with new transfers
HISTORY = timedelta(days=100)
_FILLED_AT_ONCE = 500_000
_CHAINED_AT_ONCE = 50_000
_WARM_S = 2.0
_LOOK_EVERY_S = 0.5
# Ids rise with time, as a service assigns them; each holder in turn.
_FILL = """
with line as (
    select n, holder_id, $2::bigint + place as transfer_id, $3::bigint + place as entry_id,
        $7::timestamptz + $8::interval * place as at
    from generate_series($4::bigint, $5::bigint) as n
    cross join unnest($1::bigint[]) with ordinality as listed (holder_id, rank)
    cross join lateral (select (n - $6::bigint - 1) * cardinality($1) + rank as place) as placed
),
made as (
    insert into transfer (id, holder_id, direction, initiation_type, end_to_end_id, correlation_id, amount_cents, status,
        counterparty, slot, settled_at, created_at, modified_at)
    select transfer_id, holder_id, 'IN', 'KEY', 'E99999004202601010000' || lpad(transfer_id::text, 11, '0'),
        gen_random_uuid(), 1, 'CONFIRMED', jsonb_build_object('name', 'Joana Souza', 'tax_id', '12345678909',
        'ispb', '99999004', 'branch', '0001', 'account_number', '1001', 'account_type', 'CHECKING'), transfer_id % 256,
        at, at, at
    from line order by transfer_id
)
insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
    cause_kind, cause_id, cause_state, created_at)
select entry_id, holder_id, 'settlement', 'available', 1, n, n, 'transfer', transfer_id, 'CONFIRMED', at
from line order by entry_id
"""
_BOOK = """
with ended as (
    update statement_head as head set funds_cents = funds_cents + $2, last_number = last_number + $2, last_entry_at = (
        select created_at from ledger_entry where ledger_entry.holder_id = head.holder_id and number is not null
        order by number desc limit 1
    )
    where holder_id = any ($1)
)
update balance set available_cents = available_cents + $2, settlement_cents = settlement_cents - $2
where holder_id = any ($1)
"""
_TALLY = """
insert into tally (holder_id, kind, status, hour, count)
select holder_id, 'transfer', 'CONFIRMED', date_trunc('hour', created_at, 'UTC'), count(*) from transfer
where id > $1 and id <= $2 group by 1, 4
on conflict (holder_id, kind, status, hour) do update set count = tally.count + excluded.count
"""
# As if the partitions had been created and filled so long ago.
_GROW_OLD = """
update event_partition set begun_at = begun_at - interval '400 days', closed_at = closed_at - interval '400 days'
"""
_FORGET = (
    _GROW_OLD,
    *(f"select close_partitions('{parent}', '90 days')" for parent in PARENTS),
    _GROW_OLD,
    *(f"select detach_old_partition('{parent}', '90 days')" for parent in PARENTS),
    *("select drop_detached_partition()" for _ in PARENTS),
)
_SETTLED = "select settled_id >= $1 from event_feed_state"
_CHAIN = f"select chain_entries({_CHAINED_AT_ONCE}, '0')"
_IS_CHAINED = "select chained_id >= $1 from entry_chain_state"


def measure_verify(seconds: float, entries: Sequence[int], holders: int) -> Iterator[Row]:
    """Measure at each of these numbers of entries, in ascending order."""
    with installed(is_proved=False) as service:
        os.environ["PIXCONNECT_HOME"] = str(service.home)
        filled = operating.run(lambda context: _make_holders(context, holders))
        living = service.onboard(LIVING_COUNT)
        service.wait_until_quiet()
        asyncio.run(_forget_events(service))
        _live(service, living, _WARM_S)
        # No rule checks the events of orders that began within a day of the oldest kept event.
        _advance(service, living, timedelta(days=2))
        begin, step = datetime.now(UTC) - HISTORY, (HISTORY - timedelta(days=2)) / max(entries)
        number = 0
        for count in sorted(entries):
            more = count // holders - number
            filled_s, last_id = asyncio.run(_fill(service, filled, number, more, begin + number * holders * step, step))
            number += more
            _live(service, living, _WARM_S)
            chained_s = asyncio.run(_chain(service, last_id))
            # A run over changes begins an hour before the last one.
            _advance(service, living, timedelta(hours=2))
            whole = _verify(service, "--whole")
            day_transfers = _live(service, living, seconds)
            _advance(service, living, timedelta(days=1))
            yield {
                "name": f"verify_{count}", "seconds": seconds, "entries": count, "holders": holders,
                "filled_s": filled_s, "chained_s": chained_s, "whole": whole, "day_transfers": day_transfers,
                "day": _verify(service),
            }  # fmt: skip


async def _make_holders(context: Operator, count: int) -> list[int]:
    return [
        (await holder_usecases.create_holder(context, a_new_holder(account_number=f"8{number:06}"))).id
        for number in range(count)
    ]


def _live(service: Installation, living: Sequence[Account], seconds: float) -> int:
    """Run transfers for so long; returns their number."""
    lived = uvloop.run(repeat_story(service, settle_transfer, TRANSFER_TOLD, seconds, IN_FLIGHT, living))
    return lived["lives"]


def _advance(service: Installation, living: Sequence[Account], time_passed: timedelta) -> None:
    service.post("/sandbox/v1/clock", {"advance_s": time_passed // timedelta(seconds=1)}, living[0].token)


async def _forget_events(service: Installation) -> None:
    connection = await service.connect()
    for statement in _FORGET:
        await connection.execute(statement)
    await connection.close()


async def _fill(
    service: Installation, holder_ids: Sequence[int], number: int, more: int, begin: datetime, step: timedelta
) -> tuple[float, int]:
    """Add so many lines to each holder after line ``number``; returns the seconds and the last entry's id."""
    started_s, count = time.monotonic(), more * len(holder_ids)
    transfer_id, entry_id = [await skip_ids(service, name, count) for name in ("transfer_id", "write_group_id")]
    connection = await service.connect()
    await connection.execute("set session_replication_role = replica")
    at_once = max(1, _FILLED_AT_ONCE // len(holder_ids))
    for first in range(number + 1, number + more + 1, at_once):
        last = min(first + at_once - 1, number + more)
        await connection.execute(_FILL, holder_ids, transfer_id, entry_id, first, last, number, begin, step, timeout=None)
    # Analysed first: PostgreSQL uses no index on rows without statistics.
    await connection.execute("vacuum (freeze, analyze) transfer, ledger_entry", timeout=None)
    await connection.execute(_BOOK, holder_ids, more)
    await connection.execute(_TALLY, transfer_id, transfer_id + count)
    await connection.execute("vacuum (freeze, analyze) balance, tally", timeout=None)
    await connection.execute("checkpoint")
    await connection.close()
    return time.monotonic() - started_s, entry_id + count


async def _chain(service: Installation, last_id: int) -> float:
    """Chain everything up to this entry; returns the seconds."""
    started_s = time.monotonic()
    connection = await service.connect()
    # The filled rows have no events; they count as settled by later events.
    while not await connection.fetchval(_SETTLED, last_id):  # noqa: ASYNC110  it is in the database
        await asyncio.sleep(0.2)
    while not await connection.fetchval(_IS_CHAINED, last_id):
        await connection.execute(_CHAIN, timeout=None)
    await connection.execute("vacuum (freeze, analyze) entry_chain, person_salt", timeout=None)
    await connection.close()
    return time.monotonic() - started_s


def _verify(service: Installation, *words: str) -> Row:
    meter, began_s = CpuMeter(service.process.pid), time.monotonic()
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as said, _watch(service) as peaks:
        # Outside of the home, which would give it the address of the rail.
        environment = {
            **os.environ,
            "PIXCONNECT_HOME": home,
            "DATABASE_URL": service.running["database_url"],
            "PIXCONNECT_OWNER_DATABASE_URL": service.running["owner_database_url"],
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pixconnect", "verify", "--json", "--again-after-s", "5", *words],
            env=environment,
            stdout=said,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took_s = time.monotonic() - began_s
        said.seek(0)
        found = msgspec.json.decode(said.read() or b"{}")
    if process.returncode != 0 or not found["rules"]:
        raise SystemExit(f"verify has ended with {process.returncode}: {str(found.get('findings'))[:2000]}")
    return {
        "seconds": took_s,
        "load": os.getloadavg()[0],
        "rules": found["rules"],
        "peak_mib": used.ru_maxrss / 1024,
        "server_mib": max(peaks),
        "cpu_s": {"verify": used.ru_utime + used.ru_stime, "postgres": meter.used_s().get("postgres", 0.0)},
    }


@contextmanager
def _watch(service: Installation) -> Iterator[list[float]]:
    """The private memory of PostgreSQL's processes, sampled repeatedly, without the shared cache."""
    peaks, ended = [0.0], threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_EVERY_S):
            peaks.append(resident_mib(service.process.pid, "Pss_Anon").get("postgres", 0.0))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield peaks
    finally:
        ended.set()
        watching.join()
