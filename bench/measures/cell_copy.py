"""How fast ``pixconnect cell move`` copies: ``cell_copy_<transfers>``, a cell that nobody asks for anything.

The cell's holder gets so many transfers, each with its ledger entry, written as ``growth`` writes them; then the cell is moved
to another server on the same machine. ``seconds`` is how long the verb took, ``empty_s`` how long it took for the same cell
before it had any: connecting, making the tables, comparing, renaming. What lies between is the copy: ``rows_per_second`` and
``mb_per_second``, of the size on disk with its indexes (``mb``), which the target builds while it copies. ``cpu_s``: of
all servers and of the verb, in the longer one.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterator, Sequence

from bench.figures import Row
from bench.harness.cells import CellServer, InCell, Spread, run_verb, spread
from bench.measures.growth import fill

_SIZE = "select pg_database_size(current_database()) / 1e6::float"


def measure_copy(counts: Sequence[int]) -> Iterator[Row]:
    """With so many transfers."""
    # No events and deliveries are filled, which the proof would miss.
    with spread(2, 3, logs_rows=True, is_proved=False) as two:
        cell, there = two.cells[1], 1
        empty = _move(two, cell, two.servers[there])
        empty_mb, filled_count = asyncio.run(_read_size(cell)), 0
        for count in sorted(counts):
            asyncio.run(fill(cell, int(cell.sandbox["holder_id"]), count - filled_count))
            filled_count, there = count, 1 - there
            grown_mb = asyncio.run(_read_size(cell)) - empty_mb
            moved = _move(two, cell, two.servers[there])
            copying_s = moved["seconds"] - empty["seconds"]
            yield {
                "name": f"cell_copy_{count}",
                "transfers": count,
                "mb": grown_mb,
                "seconds": moved["seconds"],
                "empty_s": empty["seconds"],
                "rows_per_second": 2 * count / copying_s,
                "mb_per_second": grown_mb / copying_s,
                "cpu_s": moved["cpu_s"],
                "load": os.getloadavg()[0],
            }


def _move(two: Spread, cell: InCell, target: CellServer) -> Row:
    database = target.make_database()
    meter, before, began_s = two.meter(), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = run_verb(cell.home, "cell", "move", cell.name, "--to", target.address_of(database))
    seconds = time.monotonic() - began_s
    if done.returncode:
        raise SystemExit(f"the cell does not move: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    verb_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cpu_s = {"postgres": meter.used_s()["postgres"], "verb": verb_s}
    cell.running["owner_database_url"] = target.url_of(database)
    for other in two.servers:
        other.drop_others(database if other is target else "")
    return {"seconds": seconds, "cpu_s": cpu_s}


async def _read_size(cell: InCell) -> float:
    connection = await cell.connect()
    size_mb = await connection.fetchval(_SIZE)
    await connection.close()
    return size_mb
