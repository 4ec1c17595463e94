"""The effect of old rows on new work: lives and lists beside 10 thousand, 1 million and 10 million transfers.

``growth_<transfers>``, one after the other on one service, for one holder with a history written in SQL: settled
transfers in, each with its ledger entry, numbers and running balances as the service writes them, counted in the
balance and the tally. Triggers and foreign keys are off meanwhile, checks and unique indexes are not; afterwards
numbers, running balances and the balance are checked (included in ``filled_s``). Their events and deliveries, 50 GB at
10 million, are left out, and so are the links of their chain: making them takes the service ten minutes of a third of a core.

- ``life``: transfers of this holder, 64 at once, as ``transfer_life``;
- ``pages``: lists of transfers, 100 a page: the first, one by cursor after half of all, and the hundredth by number;
  for each the CPU of the service and the time for one caller;
- ``tables_mb``: of ``transfer`` and ``ledger_entry``, with their indexes: 0.8 kB a transfer; the WAL needs as much
  space again.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
import uvloop

from bench.figures import Row
from bench.harness.installation import Account, Installation, installed
from bench.harness.processes import CpuMeter
from bench.load.generators import wrk
from bench.measures.end_to_end import TRANSFER_TOLD, repeat_story, settle_transfer
from pixconnect.doors.api import paging
from pixconnect.kernel.rules.listing import Cursor

IN_FLIGHT = 64
PAGE_SIZE = 100
LIST = f"/v1/connect/transfer/list?status=CONFIRMED&page_size={PAGE_SIZE}"
FAR_PAGE = 100
_LIST_SECONDS = 2.0
_FILLED_AT_ONCE = 500_000
_DISK_BYTES_EACH = 1600
# The entries of a holder each have a time of their own.
_FILL = """
with line as (
    select n, $2::bigint + n as transfer_id, $3::bigint + n as entry_id, $4::timestamptz + n * $9::interval as at
    from generate_series($6::bigint, $7::bigint) as n
),
made as (
    insert into transfer (id, holder_id, direction, initiation_type, end_to_end_id, correlation_id, amount_cents, status,
        counterparty, slot, settled_at, created_at, modified_at)
    select transfer_id, $1, 'IN', 'KEY', 'E99999004202601010000' || lpad((transfer_id % 100000000000)::text, 11, '0'),
        gen_random_uuid(), 1, 'CONFIRMED', jsonb_build_object('name', 'Joana Souza', 'tax_id', '12345678909', 'ispb',
        '99999004', 'branch', '0001', 'account_number', '1001', 'account_type', 'CHECKING'), transfer_id % 256, at, at, at
    from line
)
insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
    cause_kind, cause_id, cause_state, created_at)
select entry_id, $1, 'settlement', 'available', 1, $5::bigint + n, $8::bigint + n, 'transfer', transfer_id, 'CONFIRMED', at
from line
"""
_BALANCE = """
select funds_cents, last_number, last_entry_at from statement_head where holder_id = $1
"""
_BOOK = """
with ended as (
    update statement_head set last_number = last_number + $2, last_entry_at = $3, funds_cents = funds_cents + $2
    where holder_id = $1
)
update balance set available_cents = available_cents + $2, settlement_cents = settlement_cents - $2 where holder_id = $1
"""
_TALLY = """
insert into tally (holder_id, kind, status, hour, count)
select $1, 'transfer', 'CONFIRMED', date_trunc('hour', created_at), count(*) from transfer
where holder_id + 0 = $1 and status = 'CONFIRMED' and id > $2 and id <= $3 group by 4
on conflict (holder_id, kind, status, hour) do update set count = tally.count + excluded.count
"""
# Of the filled entries in order, and of the balance.
_WRONG = """
with line as (
    select number - lag(number) over following as step, created_at - lag(created_at) over following as pause,
        running_balance_cents - lag(running_balance_cents) over following as change
    from ledger_entry where holder_id = $1 and number >= $2 window following as (order by number)
),
last_line as (
    select number, running_balance_cents, created_at from ledger_entry where holder_id = $1 and number is not null
    order by number desc limit 1
)
select (select count(*) from line where step <> 1 or change <> 1 or pause <= interval '0') + (
    select count(*) from statement_head, last_line where holder_id = $1
        and (last_number, funds_cents, last_entry_at)
            is distinct from (number, running_balance_cents, created_at)
)
"""
_CHAINED = """
update entry_chain_state set chained_id = greatest(bound_id, last.id), bound_id = greatest(bound_id, last.id)
from (select max(id) as id from ledger_entry) as last
"""
_HALF = """
select created_at, id from transfer where holder_id + 0 = $1 and status = 'CONFIRMED' order by created_at desc, id desc
offset $2 limit 1
"""


def measure_growth(seconds: float, transfers: Sequence[int]) -> Iterator[Row]:
    """Measure at each of these sizes, in ascending order."""
    with installed(is_proved=False) as service:
        account, filled_count = service.onboard(1)[0], 0
        for count in sorted(transfers):
            filled_s = asyncio.run(fill(service, account.holder_id, count - filled_count))
            filled_count = count
            asyncio.run(_take_as_chained(service))
            uvloop.run(repeat_story(service, settle_transfer, TRANSFER_TOLD, 1, IN_FLIGHT, [account]))  # plans, cache
            life = uvloop.run(repeat_story(service, settle_transfer, TRANSFER_TOLD, seconds, IN_FLIGHT, [account]))
            kept = ("per_second", "p50_ms", "p99_ms", "cpu_us_each", "cpu_us_each_in_all")
            yield {
                "name": f"growth_{count}",
                "seconds": seconds,
                "transfers": count,
                "filled_s": filled_s,
                "life": {name: life[name] for name in kept},
                "pages": _measure_pages(service, account, count),
                "tables_mb": asyncio.run(_sizes(service)),
            }


async def fill(
    service: Installation,
    holder_id: int,
    count: int,
    *,
    after: datetime | None = None,
    step: timedelta = timedelta(microseconds=1),
) -> float:
    """Add so many transfers, ``step`` apart, after an instant or the holder's last entry; returns the seconds."""
    started_s = time.monotonic()
    free_bytes = shutil.disk_usage(service.home).free
    if free_bytes < count * _DISK_BYTES_EACH:
        raise SystemExit(
            f"{count:,} transfers need {count * _DISK_BYTES_EACH / 1e9:.0f} GB of disk; {free_bytes / 1e9:.0f} are free"
        )
    connection = await service.connect()
    await connection.execute("set session_replication_role = replica")
    transfer_id, entry_id = [await skip_ids(service, name, count) for name in ("transfer_id", "write_group_id")]
    # Nothing else changes this balance meanwhile.
    balance = await connection.fetchrow(_BALANCE, holder_id)
    assert balance is not None
    at, number, funds_cents = after or balance["last_entry_at"], balance["last_number"], balance["funds_cents"]
    for first in range(1, count + 1, _FILLED_AT_ONCE):
        last = min(first + _FILLED_AT_ONCE - 1, count)
        await connection.execute(
            _FILL, holder_id, transfer_id, entry_id, at, number, first, last, funds_cents, step, timeout=None
        )
    await connection.execute(_BOOK, holder_id, count, at + count * step)
    await connection.execute(_TALLY, holder_id, transfer_id, transfer_id + count)
    await connection.execute("vacuum (freeze, analyze) transfer, ledger_entry", timeout=None)
    await connection.execute("checkpoint")
    wrong_count = await connection.fetchval(_WRONG, holder_id, number + 1)
    assert wrong_count == 0, f"{wrong_count} entries do not follow from those before them"
    await connection.close()
    return time.monotonic() - started_s


async def skip_ids(service: Installation, sequence: str, count: int) -> int:
    """Reserve so many ids of a sequence that gives out blocks; returns the last id before them."""
    connection = await service.connect()
    try:
        first = await connection.fetchval(f"select nextval('{sequence}')")
        block = await connection.fetchval("select increment_by from pg_sequences where sequencename = $1", sequence)
        await connection.execute(f"select setval('{sequence}', {first + (count // block + 1) * block})")
        return first
    finally:
        await connection.close()


async def _take_as_chained(service: Installation) -> None:
    connection = await service.connect()
    await connection.execute(_CHAINED)
    await connection.close()


def _measure_pages(service: Installation, account: Account, count: int) -> dict[str, Row]:
    half, half_at, half_id = asyncio.run(_find_half(service, account.holder_id, count))
    listed = msgspec.json.encode(["transfers", account.holder_id, None, {"status": "CONFIRMED"}])
    cursor = paging.write_cursor(Cursor(created_at=half_at, id=half_id, position=half, total_count=count), listed)
    paths = {"first": "", "by_cursor": f"&after={cursor}", "by_number": f"&page={FAR_PAGE}"}
    return {name: _measure_page(service, account, LIST + rest) for name, rest in paths.items()}


def _measure_page(service: Installation, account: Account, path: str) -> Row:
    meter = CpuMeter(service.process.pid)
    load = wrk(service.base_url, path, "", [account.token], connections=1, seconds=_LIST_SECONDS, method="GET")
    assert load.errors_count == 0, path
    cost = meter.cost(max(1, round(load.per_second * _LIST_SECONDS)))
    return {"p50_ms": load.p50_ms, "p99_ms": load.p99_ms, **cost}


async def _find_half(service: Installation, holder_id: int, count: int) -> tuple[int, datetime, int]:
    connection = await service.connect()
    row = await connection.fetchrow(_HALF, holder_id, count // 2)
    await connection.close()
    assert row is not None
    return count // 2, row["created_at"], row["id"]


async def _sizes(service: Installation) -> dict[str, float]:
    connection = await service.connect()
    sizes = {
        name: await connection.fetchval("select pg_total_relation_size($1::text::regclass) / 1e6::float", name)
        for name in ("transfer", "ledger_entry")
    }
    await connection.close()
    return sizes
