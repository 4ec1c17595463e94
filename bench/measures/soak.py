"""Whether the service stays as it is under a load that it can bear: an hour at 60 % of what it can take.

``soak``: whole lives of transfers on one account, with both webhooks, at an even pace. First ``capacity_per_second`` is
measured for a tenth of the time, a minute at most; then 60 % of it is asked for, and at 60 instants of that time are noted:

- ``answered_p99_ms``: of the requests since the last instant; ``lag_s``: for how long what is due longest has been due, of
  orders that were not handed over and of webhooks;
- ``memory_mib``: by kind of process, what several share divided among them. PostgreSQL's grows until its cache
  (``shared_buffers_mib``) has been used once;
- ``wal_mb``: written since the beginning, and the files that are kept (``kept``);
- ``sizes_mb``: tables and indexes apart, all partitions together, and all others;
- ``dead_rows``: that vacuum has not removed yet. ``vacuum``: its settings, where they are not PostgreSQL's own.

``failed`` are requests that were not accepted; ``left_after_s`` is how long the service took to finish all in the end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any

import asyncpg
import uvloop
from msgspec import Struct, field

from bench.figures import Row
from bench.harness.installation import Installation, installed
from bench.harness.processes import CpuMeter, resident_mib
from bench.load.open_loop import OpenLoop
from bench.measures.accepting import TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, repeat_story, running, settle_transfer

PART = 0.6
SAMPLES = 60
AT_ONCE = 256
CAPACITY_MAX_S = 60.0
_TABLES = ("transfer", "ledger_entry", "event", "delivery", "delivery_attempt", "open_order")
_LAG = """
select
    coalesce(extract(epoch from now() - (select min(due_at) from delivery where status = 'pending' and due_at < now())), 0)
        ::float as deliveries,
    coalesce(extract(epoch from now() - (select min(ordered_at) from open_order where handed_at is null)), 0)::float as orders
"""
# Of all partitions of a table together. What belongs to none of the named is the rest: "other".
_SIZES = """
select case when name = any($1) then name else 'other' end as name, sum(table_mb)::float as tables,
    sum(index_mb)::float as indexes, sum(dead)::float as dead
from (
    select coalesce(pg_partition_root(relid)::regclass::text, relname) as name, pg_table_size(relid) / 1e6 as table_mb,
        pg_indexes_size(relid) / 1e6 as index_mb, n_dead_tup as dead
    from pg_stat_user_tables
) as sized
group by 1
"""
_WAL = """
select (pg_current_wal_lsn() - '0/0') / 1e6::float as written, (select sum(size) / 1e6 from pg_ls_waldir())::float as kept
"""
_VACUUM = """
select name, setting || coalesce(unit, '') as setting from pg_settings
where name like 'autovacuum%' and setting is distinct from boot_val
union all
select 'runs of ' || relname, autovacuum_count::text from pg_stat_user_tables where autovacuum_count > 0
order by 1
"""


class _Noted(Struct, kw_only=True):
    """What was noted so far; every list is as long as the first."""

    at_s: list[float] = field(default_factory=list)
    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, group: str, values: dict[str, Any]) -> None:
        """One value more of each series; one that has only begun was 0 before."""
        kept = self.series.setdefault(group, {})
        for name in [*kept, *(name for name in values if name not in kept)]:
            line = kept.setdefault(name, [0.0] * (len(self.at_s) - 1))
            line.append(round(values.get(name, 0.0), 3))


def measure_soak(seconds: float) -> Iterator[Row]:
    """For so long, at an even pace."""
    with installed() as service:
        yield {"name": "soak", **uvloop.run(_soak(service, seconds))}


async def _soak(service: Installation, seconds: float) -> Row:
    capacity_s = min(CAPACITY_MAX_S, seconds / 10)
    life = await repeat_story(service, settle_transfer, TRANSFER_TOLD, capacity_s, AT_ONCE)
    per_second = PART * life["per_second"]
    noted, failed_count = _Noted(), 0
    load = OpenLoop(service.base_url, TRANSFER, TRANSFER_BODY, [service.demonstration().token])
    connection = await service.connect()
    async with running(service, TRANSFER_TOLD) as run:
        wal_before = await connection.fetchval("select (pg_current_wal_lsn() - '0/0') / 1e6::float")
        meter, started_s = CpuMeter(service.process.pid, generator=os.getpid()), time.monotonic()
        while (at_s := time.monotonic() - started_s) < seconds:
            answers = await load.flood(per_second, seconds / SAMPLES)
            failed_count += len(answers.refused_ms) + answers.failed_count
            noted.at_s.append(round(at_s + seconds / SAMPLES, 1))
            noted.add("answered_p99_ms", {"answered": answers.said()["accepted_p99_ms"]})
            await _note(noted, service, connection, wal_before)
        lives_count = run.heard_count // len(TRANSFER_TOLD)
        cost = meter.cost(max(1, lives_count))
        vacuum = {row["name"]: row["setting"] for row in await connection.fetch(_VACUUM)}
        left_after_s = await service.until_quiet()
    load.close()
    shared_mib = await connection.fetchval("select setting::int / 128 from pg_settings where name = 'shared_buffers'")
    await connection.close()
    return {
        "seconds": seconds,
        "capacity_per_second": life["per_second"],
        "per_second": per_second,
        "lives": lives_count,
        "failed": failed_count,
        "left_after_s": left_after_s,
        **cost,
        "shared_buffers_mib": shared_mib,
        "vacuum": vacuum,
        "at_s": noted.at_s,
        **noted.series,
    }


async def _note(
    noted: _Noted, service: Installation, connection: asyncpg.Connection[asyncpg.Record], wal_before: float
) -> None:
    lag = await connection.fetchrow(_LAG)
    wal = await connection.fetchrow(_WAL)
    sizes = await connection.fetch(_SIZES, _TABLES)
    assert lag is not None
    assert wal is not None
    noted.add("lag_s", dict(lag))
    noted.add("memory_mib", await asyncio.to_thread(resident_mib, service.process.pid))
    noted.add("wal_mb", {"written": wal["written"] - wal_before, "kept": wal["kept"]})
    noted.add(
        "sizes_mb",
        {row["name"]: row["tables"] for row in sizes} | {f"{row['name']} indexes": row["indexes"] for row in sizes},
    )
    noted.add("dead_rows", {row["name"]: row["dead"] for row in sizes})
