"""What it costs to read what came in at an institution, and whether a busy account keeps up with a hundred thousand Pix a day.

``receive_<kind>``: an installation in live mode reads a day of so many Pix from a face of that kind, over TLS, within the
rates of its routes. The bank's history is filled in SQL, evenly over the day before, and the account's books are dated back
before it. CPU is that of the live installation alone, its PostgreSQL included, for each Pix or line:

- ``new``: it is listed for the first time, and credited; ``known``: it is listed again, and compared. It is listed at three
  paces: about forty times in the readings of ten minutes each quarter of a minute, and 72 times in those of 72 hours each hour;
- ``line_new``, ``line_known``: the same of its line in the statement, where the institution's API has one. A line is read
  each ten minutes of its day, and each hour of two days more: 120 times;
- ``core_part``: which part of one core all that takes, at the pace of 100,000 a day;
- ``per_second``: what was listed in a second of each; the budgets of routes are in it.

``receive_sandbox``: payments over the sandbox's own rail, asked for as fast as they are taken: CPU of all processes, the
network and who asks it included.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from bench.figures import Row
from bench.harness.accounts import Pair, paired
from bench.harness.installation import installed
from bench.harness.processes import CpuMeter
from bench.load.generators import wrk
from bench.measures.growth import fill

KINDS = ("efi", "inter", "sicoob", "woovi")
A_DAY = 100_000
LISTED_TIMES = timedelta(minutes=10) / timedelta(seconds=15) + 72
LINE_READ_TIMES = 72 + 2 * 24
_TIMEOUT_S = 3600
_PAYMENTS = "/sandbox/v1/payments"
_SPAN = timedelta(hours=24)
# The first entries of a home are of its start, and a history cannot be older than them.
_DATE_BACK = """
update ledger_entry set created_at = created_at - interval '3 days' where holder_id = 1;
update statement_head set last_entry_at = last_entry_at - interval '3 days' where holder_id = 1
"""
_BEGIN_BEFORE = """
update institution_account set opened_at = opened_at - interval '25 hours', revision = revision + 1
"""
# What is not measured now is not due.
_LET_REST = "update institution_sweep set began_at = now() where pace <> 'near'"
_MAKE_DUE = """
update institution_sweep set began_at = now() - interval '1 day', ended_at = 'epoch'
where pace = $1
"""
_ENDED = "select items_count from institution_sweep where pace = $1 and ended_at > 'epoch' and failed_at is null"


def measure_receiving(pix: int, seconds: float, kinds: Sequence[str]) -> Iterator[Row]:
    """Of each kind, and beside them the sandbox's own rail."""
    for kind in kinds or KINDS:
        with paired(kind) as pair:
            yield {"name": f"receive_{kind}", "pix": pix, **asyncio.run(_receive(pair, kind, pix))}
    if not kinds:
        yield _receive_over_sandbox(seconds)


async def _receive(pair: Pair, kind: str, count: int) -> Row:
    await _date_back(pair)
    begin = datetime.now(UTC) - _SPAN - timedelta(minutes=1)
    await fill(pair.bank, 1, count, after=begin, step=_SPAN / count)
    await asyncio.to_thread(pair.open_account, kind, 1, 1)
    connection = await pair.connect_live()
    paces = ["wide", "deep"] + ["statement"] * (kind in ("inter", "sicoob"))
    try:
        while len(await connection.fetch("select from institution_sweep where pace = any($1)", paces)) < len(paces):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.2)
        await connection.execute(_LET_REST)
        await connection.execute("set session_replication_role = replica")
        await connection.execute(_BEGIN_BEFORE)
        await asyncio.sleep(3)
        costs = dict[str, Row]()
        for name, pace in dict(new="wide", known="wide", line_new="statement", line_known="statement").items():
            if pace in paces:
                costs[name] = await _read_once(pair, pace, count)
                await connection.execute(_LET_REST)
        wrong = await connection.fetchval("select count(*) from transfer") - count
        assert wrong == 0, f"{wrong} more are recorded than came in"
    finally:
        await connection.close()
    each_us = {name: cost["cpu_us_each_in_all"] for name, cost in costs.items()}
    in_all_us = each_us["new"] + LISTED_TIMES * each_us["known"]
    in_all_us += each_us.get("line_new", 0) + LINE_READ_TIMES * each_us.get("line_known", 0)
    return {**costs, "in_a_day_us_each": in_all_us, "core_part": A_DAY * in_all_us / 1e6 / 86400}


async def _date_back(pair: Pair) -> None:
    connection = await pair.bank.connect()
    await connection.execute("set session_replication_role = replica")
    await connection.execute(_DATE_BACK)
    await connection.close()


async def _read_once(pair: Pair, pace: str, count: int) -> Row:
    """One whole sweep at a pace, and what each of so many cost."""
    connection = await pair.connect_live()
    meter, started_s = CpuMeter(pair.live.process.pid), time.monotonic()
    await connection.execute(_MAKE_DUE, pace)
    async with asyncio.timeout(_TIMEOUT_S):
        while (found := await connection.fetchval(_ENDED, pace)) is None:  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.2)
    took_s = time.monotonic() - started_s
    await connection.close()
    assert found >= count, f"{found} of {count} were listed"
    return {"per_second": count / took_s, **meter.cost(count)}


def _receive_over_sandbox(seconds: float) -> Row:
    with installed() as service:
        meter = CpuMeter(service.process.pid)
        body = json.dumps({"key": service.sandbox["pix_keys"][0], "amount": 1})
        token = service.demonstration().token
        load = wrk(service.base_url, _PAYMENTS, body, [token], connections=64, seconds=seconds)
        service.wait_until_quiet()
        if load.errors_count:
            raise SystemExit(f"bench: {load.errors_count} payments were refused")
        cost = meter.cost(round(load.per_second * seconds))
        return {
            "name": "receive_sandbox", "seconds": seconds, "per_second": load.per_second, "p50_ms": load.p50_ms,
            "p99_ms": load.p99_ms, **cost,
        }  # fmt: skip
