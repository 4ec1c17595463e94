"""What the chain costs hot rows: two services up at once, of which one chains what was posted and one never does.

``chain_<row>`` for the rows of ``bench.against`` that post entries, loaded and compared as there, pair by pair: the CPU of all
processes for one request or life, with the chain by without. What chains rests for a minute, and would do it while the other
service is loaded; so each slice ends by chaining all of its entries, by the function and in the batches of a worker, and
what that took is in its figure. The function of the service without a chain is replaced by one that does nothing.

- ``ratio``, ``low``, ``high``: the median of the pairs, and an interval for it (``bench.against.interval``);
- ``chained_us``: CPU of the connection that chains, for an entry: the median of the slices;
- ``load``: how many processes ran or wanted to in the last minute, ours among them: beside others the interval is wide.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import Final

import asyncpg

from bench.against import ROWS, compare, interval
from bench.figures import Row
from bench.harness.installation import Installation, installed
from bench.harness.processes import cpu_seconds
from pixconnect.usecases.proof.chain import CHAINED_MAX

ENTRIES_EACH: Final = dict(transfer_accepted=1, transfer_settled=2, charge_paid=1, transfer_life=2)
"""What one request or life posts, within what its row counts."""
_CHAIN: Final = f"select chain_entries({CHAINED_MAX}, '0')"
_NEVER: Final = """
create or replace function chain_entries(count_max integer, rest interval) returns bigint language sql as 'select 0::bigint'
"""


def measure_chaining(seconds: float, rounds: int, kinds: Sequence[str]) -> Iterator[Row]:
    """Each row that posts entries, or only these."""
    for name in kinds or ENTRIES_EACH:
        with asyncio.Runner() as runner, installed(is_proved=False) as without, installed() as chaining:
            yield _measure(name, runner, without, chaining, seconds, rounds)


def _measure(
    name: str, runner: asyncio.Runner, without: Installation, chaining: Installation, seconds: float, rounds: int
) -> Row:
    connection = runner.run(chaining.connect())
    runner.run(_replace_chain(without))
    chained_us: list[float] = []

    def load(service: Installation, slice_s: float) -> float:
        cost_us = ROWS[name](service, slice_s)
        if service is chaining:
            chained_us.append(runner.run(_chain(connection)))
            cost_us += ENTRIES_EACH[name] * chained_us[-1]
        return cost_us

    low, median, high = interval(compare(load, without, chaining, rounds, seconds))
    runner.run(connection.close())
    return {
        "name": f"chain_{name}",
        "seconds": seconds,
        "rounds": rounds,
        "ratio": median,
        "low": low,
        "high": high,
        "chained_us": statistics.median(chained_us),
        "load": os.getloadavg()[0],
    }


async def _replace_chain(service: Installation) -> None:
    connection = await service.connect()
    await connection.execute(_NEVER)
    await connection.close()


async def _chain(connection: asyncpg.Connection[asyncpg.Record]) -> float:
    """Chain all that can be; CPU microseconds of each entry."""
    pid = await connection.fetchval("select pg_backend_pid()")
    began_s, count, found_none = cpu_seconds(pid), 0, 0
    # The first call after the last batch only notes up to where it goes.
    while found_none < 2:
        chained_count = await connection.fetchval(_CHAIN)
        count, found_none = count + chained_count, 0 if chained_count else found_none + 1
    return 1e6 * (cpu_seconds(pid) - began_s) / max(1, count)
