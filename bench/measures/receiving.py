"""The cost of reading received Pix from an institution, and whether an account with 100,000 Pix a day can keep up.

``receive_<kind>``: a live installation reads a day of so many Pix from a simulated bank of that kind over TLS, within
the rate limits of its routes. The bank's history is written in SQL, evenly over the day before, and the account's books
begin before it. CPU is the live installation's with its PostgreSQL, for each Pix or line:

- ``new``: listed for the first time, and credited; ``known``: listed again, and compared. A Pix is listed about forty
  times in readings of ten minutes each quarter of a minute, and 72 times in those of 72 hours each hour;
- ``line_new``, ``line_known``: the same for its line in the statement, if the institution's API has one. A line is read
  every ten minutes of its day, and every hour of two more days: 120 times;
- ``core_part``: the part of one core for all that at 100,000 a day;
- ``per_second``: items listed in a second of each, within the limits of the routes.

``receive_sandbox``: payments over the sandbox's own rail as fast as they are accepted: CPU of all processes, with the
network and the caller.
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
# The first entries of a home date from its start, and a history cannot be older.
_DATE_BACK = """
update ledger_entry set created_at = created_at - interval '3 days' where holder_id = 1;
update statement_head set last_entry_at = last_entry_at - interval '3 days' where holder_id = 1
"""
_BEGIN_BEFORE = """
update institution_account set opened_at = opened_at - interval '25 hours', revision = revision + 1
"""
# Nothing else is due during the measurement.
_LET_REST = "update institution_sweep set began_at = now() where pace <> 'near'"
_MAKE_DUE = """
update institution_sweep set began_at = now() - interval '1 day', ended_at = 'epoch'
where pace = $1
"""
_ENDED = "select items_count from institution_sweep where pace = $1 and ended_at > 'epoch' and failed_at is null"


def measure_receiving(pix: int, seconds: float, kinds: Sequence[str]) -> Iterator[Row]:
    """Measure each kind, and the sandbox's own rail for comparison."""
    for kind in kinds or KINDS:
        with paired(kind) as pair:
            yield {"name": f"receive_{kind}", "pix": pix, **asyncio.run(_receive(pair, kind, pix))}
    if not kinds:
        yield _receive_over_sandbox(seconds)


async def _receive(pair: Pair, kind: str, count: int) -> Row:
    connection = await pair.bank.connect()
    await connection.execute("set session_replication_role = replica")
    await connection.execute(_DATE_BACK)
    await connection.close()
    begin = datetime.now(UTC) - _SPAN - timedelta(minutes=1)
    await fill(pair.bank, 1, count, after=begin, step=_SPAN / count)
    await asyncio.to_thread(pair.open_account, kind)
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


async def _read_once(pair: Pair, pace: str, count: int) -> Row:
    """One whole sweep at a pace; returns the cost of each of so many."""
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
