"""The embedded PostgreSQL's settings: always durable, and sized to the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec import Struct

MIB = 1024 * 1024
GIB = 1024 * MIB


class Machine(Struct, frozen=True, kw_only=True):
    memory_bytes: int
    """The machine's memory, or the container's limit."""
    disk_free_bytes: int
    cores_count: int


def look_at_machine(folder: Path) -> Machine:
    disk = os.statvfs(folder)
    return Machine(
        memory_bytes=min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _container_limit_bytes()),
        disk_free_bytes=disk.f_bavail * disk.f_frsize,
        cores_count=cores_count(),
    )


def cores_count() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def server_settings(machine: Machine, *, connections_max: int, durable: bool) -> dict[str, str]:
    """Names and values for ``postgres -c name=value``; ``durable`` is false only in tests."""
    # The service runs on the same machine, so PostgreSQL's own cache gets an eighth of the memory, and its write-ahead
    # log about a sixteenth of the free disk. The kernel caches PostgreSQL's files too: a cache of more than half a
    # gibibyte would hold them twice, and each gibibyte costs 20 MiB even while empty.
    shared_bytes = _between(machine.memory_bytes // 8, 64 * MIB, GIB // 2)
    log_bytes = _between(machine.disk_free_bytes // 16, 256 * MIB, 4 * GIB)
    settings = dict(
        listen_addresses="",
        max_connections=str(connections_max),
        shared_buffers=_mib(shared_bytes),
        effective_cache_size=_mib(machine.memory_bytes // 2),
        maintenance_work_mem=_mib(_between(machine.memory_bytes // 64, 32 * MIB, 256 * MIB)),
        work_mem="8MB",
        # As much a second as by default (100 pages each 200 ms), with a fifth of the wake-ups.
        bgwriter_delay="1s",
        bgwriter_lru_maxpages="500",
        # It writes what no client waits for: only the simulated network does that.
        wal_writer_delay="1s",
        # Commits come every few milliseconds and empty them, so they never hold much.
        wal_buffers="4MB",
        wal_compression="on",
        max_wal_size=_mib(log_bytes),
        min_wal_size=_mib(min(log_bytes // 2, 512 * MIB)),
        checkpoint_timeout="10min",
        random_page_cost="1.1",
        jit="off",
        max_logical_replication_workers="0",
        # Each round starts a process for each database, of which there are three, work or none: 0.3 % of a core with 15 s.
        autovacuum_naptime="30s",
        autovacuum_vacuum_cost_limit="1000",
        autovacuum_max_workers=str(_between(machine.cores_count, 2, 4)),
        max_parallel_workers_per_gather=str(min(machine.cores_count // 2, 2)),
        password_encryption="scram-sha-256",  # noqa: S106  how passwords are hashed, not one of them
        log_checkpoints="off",
        log_min_messages="warning",
        # Statements and details contain names, tax ids and keys, which must not be logged.
        log_min_error_statement="panic",
        log_error_verbosity="terse",
        log_timezone="UTC",
        timezone="UTC",
    )
    return settings | (_durable() if durable else _forgetful())


def _durable() -> dict[str, str]:
    settings = dict(fsync="on", synchronous_commit="on", full_page_writes="on")
    # On macOS a plain fsync leaves the bytes in the drive's own memory.
    if sys.platform == "darwin":
        settings["wal_sync_method"] = "fsync_writethrough"
    return settings


def _forgetful() -> dict[str, str]:
    return dict(fsync="off", synchronous_commit="off", full_page_writes="off", shared_buffers="64MB")


def _container_limit_bytes() -> int:
    # Control groups version 2, then version 1.
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int(Path(name).read_text())
        except (OSError, ValueError):
            continue
    return sys.maxsize


def _between(value: int, lowest: int, highest: int) -> int:
    return max(lowest, min(value, highest))


def _mib(size_bytes: int) -> str:
    return f"{size_bytes // MIB}MB"
