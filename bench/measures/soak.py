"""The service under sustainable load: an hour at 60 % of its capacity.

``soak``: whole lives of transfers on one account, with both webhooks, at a fixed pace. Three runs of a sixtieth of
``seconds`` each, at most 20 s, measure the capacity (``capacities_per_second``); the pace is 60 % of their median, or
less if the disk is too small (``is_held_by_disk``). After ``seconds`` it rests for a twelfth of that, to show what
recovers. A sample is taken every sixtieth of ``seconds``, and the row is kept each time: if it is ended early, the
samples until then are kept, and ``is_whole`` is false.

- ``per_second_in``: accepted, and delivered by both webhooks (``lives``); ``answered_ms``: of the requests since the
  last sample;
- ``lag_s``: the age of the oldest due order and webhook, the greatest of twenty looks since the last sample;
- ``memory_mib``: by kind of process, with shared memory divided among them, except that of PostgreSQL's processes
  (``postgres_cache``), of which ``shared_buffers_mib`` are the cache once all of it is used;
- ``wal_mb``: written since the beginning, and the existing files (``kept``);
- ``tables_mb``, ``indexes_mb``: all partitions of a table together; ``settlement`` is the simulated network's;
- ``dead_rows``: not yet removed by vacuum, and ``unvacuumed_s``: the time since it last finished on the table, or on
  its most recently vacuumed partition. ``vacuum``: its non-default settings, and ``vacuum_runs``.

``failed`` are requests that were not accepted; ``left_after_s`` is the time to finish everything at the end, and
``left`` the unfinished work after two minutes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import uvloop
from msgspec import Struct, field

from bench.figures import Row
from bench.harness.installation import Installation, installed, read_backlog
from bench.harness.processes import CpuMeter, resident_mib
from bench.load.open_loop import OpenLoop
from bench.load.receivers import Receivers, receiving
from bench.measures.accepting import TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import TRANSFER_TOLD, repeat_story, settle_transfer

PART = 0.6
SAMPLES = 60
AT_ONCE = 256
LOOKS = 20
_RAMPS = 3
_RAMP_MAX_S = 20.0
_LEFT_MAX_S = 120.0
_DISK_KEPT_MB = 6000  # the space that the soak leaves free: WAL takes up to 4 GiB
_DISK_MIN_MB = 2000  # with less it ends; otherwise PostgreSQL would
_TABLES = ("transfer", "ledger_entry", "event", "delivery", "delivery_attempt", "open_order", "settlement")
_LAG = """
select
    coalesce(extract(epoch from now() - (select min(due_at) from delivery where status = 'pending' and due_at < now())), 0)
        ::float as deliveries,
    coalesce(extract(epoch from now() - (select min(ordered_at) from open_order where handed_at is null)), 0)::float as orders
"""
# All partitions of a table together; tables outside of the named ones are "other".
_SIZES = """
select case when name = any($1) then name else 'other' end as name, sum(table_mb)::float as tables_mb,
    sum(index_mb)::float as indexes_mb, sum(dead)::float as dead_rows,
    extract(epoch from now() - coalesce(max(vacuumed_at), pg_postmaster_start_time()))::float as unvacuumed_s
from (
    select coalesce(pg_partition_root(relid)::regclass::text, relname) as name, pg_table_size(relid) / 1e6 as table_mb,
        pg_indexes_size(relid) / 1e6 as index_mb, n_dead_tup as dead,
        greatest(last_vacuum, last_autovacuum) as vacuumed_at
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
order by 1
"""
_RUNS = """
select coalesce(pg_partition_root(relid)::regclass::text, relname) as name, sum(autovacuum_count)::int as runs
from pg_stat_user_tables where autovacuum_count > 0 group by 1 order by 1
"""


class _Series(Struct):
    """The samples so far; every list is as long as the first."""

    at_s: list[float] = field(default_factory=list)
    by_group: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, group: str, values: dict[str, Any]) -> None:
        """Add a value to each series; a new series starts with zeros."""
        kept = self.by_group.setdefault(group, {})
        for name in [*kept, *(name for name in values if name not in kept)]:
            line = kept.setdefault(name, [0.0] * (len(self.at_s) - 1))
            line.append(round(values.get(name, 0.0), 3))


def measure_soak(seconds: float) -> Iterator[Row]:
    """Run for so long at a fixed pace; yields the same row again with each new sample."""
    runners = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with installed() as service, receiving() as receivers, runners as runner:
        rows = _soak(service, receivers, seconds)

        async def next_row() -> Row | None:
            return await anext(rows, None)

        while (row := runner.run(next_row())) is not None:
            yield {"name": "soak", **row}


async def _soak(service: Installation, receivers: Receivers, seconds: float) -> AsyncIterator[Row]:
    pace = await _find_pace(service, seconds)
    account = service.demonstration()
    await asyncio.to_thread(service.add_endpoint, account, f"{receivers.urls[0]}/count", *TRANSFER_TOLD)
    load = OpenLoop(service.base_url, TRANSFER, TRANSFER_BODY, [account])
    connection = await service.connect()
    wal_mb = await connection.fetchval("select (pg_current_wal_lsn() - '0/0') / 1e6::float")
    sampler = _Sampler(service, receivers, load, connection, wal_mb)
    row: Row = {
        "seconds": seconds,
        "is_whole": False,
        **pace,
        "shared_buffers_mib": await connection.fetchval(
            "select setting::int / 128 from pg_settings where name = 'shared_buffers'"
        ),
        "vacuum": {each["name"]: each["setting"] for each in await connection.fetch(_VACUUM)},
    }
    flood = asyncio.create_task(load.flood(pace["per_second"], seconds))
    while sampler.lasted_s < seconds and _free_mb(service) > _DISK_MIN_MB:
        await sampler.sample(seconds / SAMPLES)
        await asyncio.to_thread(load.renew)
        yield row | {"lasted_s": sampler.lasted_s} | sampler.said()
        if flood.done():
            flood.result()  # it may have failed
    row |= {"is_ended_by_disk": _free_mb(service) <= _DISK_MIN_MB}
    flood.cancel()
    row |= {"lasted_s": sampler.lasted_s, **sampler.meter.cost(max(1, sampler.lives_count))}
    row |= await _finish(service, connection)
    while sampler.lasted_s < row["lasted_s"] + seconds / 12:
        await sampler.sample(seconds / SAMPLES)
        yield row | sampler.said()
    runs = {each["name"]: each["runs"] for each in await connection.fetch(_RUNS)}
    yield row | sampler.said() | {"is_whole": True, "vacuum_runs": runs}
    load.close()
    await connection.close()


async def _find_pace(service: Installation, seconds: float) -> Row:
    """The pace: a part of what it can serve, limited by the space on the disk."""
    ramp_s = min(_RAMP_MAX_S, seconds / SAMPLES)
    # Plans, caches and the first extents of each table are needed once only.
    await repeat_story(service, settle_transfer, TRANSFER_TOLD, ramp_s / 4, AT_ONCE)
    before_mb, lives_count = await _measure_database_mb(service), 0
    capacities: list[float] = []
    for _ in range(_RAMPS):
        life = await repeat_story(service, settle_transfer, TRANSFER_TOLD, ramp_s, AT_ONCE)
        capacities.append(life["per_second"])
        lives_count += life["lives"]
    life_mb = (await _measure_database_mb(service) - before_mb) / lives_count
    wanted, borne = PART * statistics.median(capacities), (_free_mb(service) - _DISK_KEPT_MB) / life_mb / seconds
    return {
        "capacity_per_second": statistics.median(capacities),
        "capacities_per_second": capacities,
        "per_second": max(1.0, min(wanted, borne)),
        "is_held_by_disk": borne < wanted,
    }


class _Sampler:
    """Takes samples while it runs, and keeps nothing else."""

    def __init__(
        self,
        service: Installation,
        receivers: Receivers,
        load: OpenLoop,
        connection: asyncpg.Connection[asyncpg.Record],
        wal_before_mb: float,
    ) -> None:
        self._service = service
        self._receivers = receivers
        self._load = load
        self._connection = connection
        self._wal_before_mb = wal_before_mb
        self._failed_count = self._told_count = 0
        self._series = _Series()
        self._started_s = time.monotonic()
        self._sampled_s = self._started_s
        self.meter = CpuMeter(service.process.pid, generator=os.getpid(), receivers=receivers.pid)

    @property
    def lasted_s(self) -> float:
        return self._sampled_s - self._started_s

    @property
    def lives_count(self) -> int:
        return self._told_count // len(TRANSFER_TOLD)

    async def sample(self, seconds: float) -> None:
        began_s, lag_s = self._sampled_s, dict(orders=0.0, deliveries=0.0)
        # After a long wait for the backlog it takes one more look.
        until_s = max(self._started_s + (len(self._series.at_s) + 1) * seconds, time.monotonic() + seconds / LOOKS)
        while (left_s := until_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, seconds / LOOKS))
            found = await self._connection.fetchrow(_LAG)
            assert found is not None
            lag_s = {name: max(longest_s, found[name]) for name, longest_s in lag_s.items()}
        self._sampled_s = time.monotonic()
        self._series.at_s.append(round(self._sampled_s - self._started_s, 1))
        self._series.add("lag_s", lag_s)
        await self._add_answers(self._sampled_s - began_s)
        await self._add_database()
        pid = self._service.process.pid
        memory, shared = [await asyncio.to_thread(resident_mib, pid, part) for part in ("Pss", "Pss_Shmem")]
        memory["postgres"] -= shared["postgres"]
        self._series.add("memory_mib", memory | {"postgres_cache": shared["postgres"]})

    def said(self) -> Row:
        return {
            "lives": self.lives_count,
            "failed": self._failed_count,
            "at_s": self._series.at_s,
            **self._series.by_group,
        }

    async def _add_answers(self, lasted_s: float) -> None:
        answers = self._load.take()
        told_count = len((await asyncio.to_thread(self._receivers.arrivals)).event_ids)
        self._told_count += told_count
        self._failed_count += len(answers.refused_ms) + answers.failed_count
        lives_count = told_count / len(TRANSFER_TOLD)
        self._series.add("per_second_in", {"accepted": len(answers.accepted_ms) / lasted_s, "lives": lives_count / lasted_s})
        said = answers.said()
        self._series.add("answered_ms", {part: said[f"accepted_{part}_ms"] for part in ("p50", "p99")})

    async def _add_database(self) -> None:
        wal = await self._connection.fetchrow(_WAL)
        assert wal is not None
        self._series.add("wal_mb", {"written": wal["written"] - self._wal_before_mb, "kept": wal["kept"]})
        tables = await self._connection.fetch(_SIZES, _TABLES)
        for group in ("tables_mb", "indexes_mb", "dead_rows", "unvacuumed_s"):
            self._series.add(group, {table["name"]: table[group] for table in tables})


async def _finish(service: Installation, connection: asyncpg.Connection[asyncpg.Record]) -> Row:
    """Wait until all is done, within a limit."""
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(_LEFT_MAX_S):
            await service.until_quiet()
    except TimeoutError:
        pass  # the row has the remaining work
    took_s, left = time.monotonic() - began_s, await read_backlog(connection)
    return {"left_after_s": took_s, "left": {"orders": left.orders_count, "deliveries": left.deliveries_count}}


async def _measure_database_mb(service: Installation) -> float:
    connection = await service.connect()
    size_mb = await connection.fetchval("select pg_database_size(current_database()) / 1e6::float")
    await connection.close()
    return size_mb


def _free_mb(service: Installation) -> float:
    return shutil.disk_usage(service.home).free / 1e6
