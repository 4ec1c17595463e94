"""Workers, the slots that they lease, and the fence before each of their writes.

A worker is alive while it renews its row, by the database's clock, and holds its advisory lock. A worker that finds another one
dead removes its row, under a lock that a renewal takes too: a removed worker can never renew again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables.clock import DatabaseClock
from pixconnect.kernel.tables.lookup import Command, Pairs
from pixconnect.kernel.tables.table import fetch_row
from pixconnect.platform.pool import Connection, Pool

LEASE = timedelta(seconds=15)  # how long a worker counts as alive after its last renewal
_LOCK_CLASS: Final = 0x7078_776B  # advisory locks of workers


async def join(connection: Connection) -> int:
    """Register a worker for the life of this connection; return its new unique id."""
    # The lock comes before the row: any worker that sees a row whose lock is free removes it.
    worker_id: int = await connection.fetchval("select nextval('worker_id')::integer")
    await connection.execute("select pg_advisory_lock($1::integer, $2::integer)", _LOCK_CLASS, worker_id)
    await connection.execute("insert into worker (id, expires_at) values ($1, clock_timestamp() + $2)", worker_id, LEASE)
    return worker_id


# Other workers are removed before they are counted: one that is gone would make every share too small.
_RENEW: Final[LiteralString] = f"""
    with renewed as (
        update worker set expires_at = clock_timestamp() + $2, oldest_due_at = $3
        where id = $1 and expires_at > clock_timestamp()
        returning id
    ), gone as (
        delete from worker
        where id <> $1 and exists (select from renewed) and (
            expires_at <= clock_timestamp()
            or id not in (
                select objid::bigint::integer from pg_locks
                where locktype = 'advisory' and classid = $4 and objsubid = 2 and granted
                    and database = (select oid from pg_database where datname = current_database())
            )
        )
        returning id
    )
    select array(select slot from slot_lease where worker_id = $1 order by slot) as slots,
        array(select epoch from slot_lease where worker_id = $1 order by slot) as epochs,
        (select count(*) from worker where id not in (select id from gone)) as workers_count, clock.*
    from renewed cross join ({clock_store.READ}) as clock
"""


async def renew(
    connection: Connection, worker_id: int, oldest_due_at: datetime | None
) -> tuple[dict[int, int], int, DatabaseClock] | None:
    """Renew a worker, and remove those that stopped renewing or whose connection is gone, which frees their slots.

    Returns the slots that the worker holds, each with its epoch, the number of workers, and the clock; ``None`` when it is too
    late and others may have taken the slots. ``oldest_due_at`` is for the health check: since when, real time, a delivery waits
    that could be tried and was not.
    """
    row = await connection.fetchrow(_RENEW, worker_id, LEASE, oldest_due_at, _LOCK_CLASS)
    if row is None:
        return None
    return dict(zip(row["slots"], row["epochs"], strict=True)), row["workers_count"], clock_store.clock_of(row)


# The new epoch fences off later writes of the slot's last holder. Slots that another worker takes now are skipped.
take: Final = Pairs[int, int, int, int]("""
    update slot_lease set worker_id = $1, epoch = epoch + 1 where slot in (
        select slot from slot_lease where worker_id is null order by slot limit $2 for update skip locked
    )
    returning slot, epoch
""")
"""Take free slots; returns their epochs by slot."""

release: Final = Command[int, Sequence[int]]("update slot_lease set worker_id = null where worker_id = $1 and slot = any($2)")
leave: Final = Command[int]("delete from worker where id = $1")
"""Deregister the worker; its slots become free."""

HOLD: Final[LiteralString] = """
    select slot from slot_lease
    where (slot, epoch) in (select * from unnest($1::smallint[], $2::bigint[])) and refuse_old_session()
    order by slot for key share
"""
"""The fence, for single statements."""


async def fence(connection: Connection, epochs: Mapping[int, int]) -> set[int]:
    """Lock and return the slots still ours under the epochs read; a worker's first lock, until the transaction ends."""
    rows = await connection.fetch(HOLD, list(epochs), list(epochs.values()))
    return {row["slot"] for row in rows}


_OLDEST_DUE: Final[LiteralString] = """
    select count(*) filter (where expires_at > clock_timestamp()) as workers_count,
        min(oldest_due_at) filter (where expires_at > clock_timestamp()) as oldest_due_at
    from worker
"""


async def read_lease_backlog(connection: Connection) -> tuple[int, datetime | None]:
    """Read the number of workers, and the real time of the oldest due delivery that none has tried."""
    row = await fetch_row(connection, _OLDEST_DUE)
    return row["workers_count"], row["oldest_due_at"]


_SILENT: Final[LiteralString] = "select extract(epoch from clock_timestamp() - max(expires_at) + $1)::float8 from worker"


async def read_silent_s(connection: Connection | Pool) -> float | None:
    """Return seconds since the last renewal of any worker; ``None`` where each worker has deregistered itself."""
    silent_s: float | None = await connection.fetchval(_SILENT, LEASE)
    return silent_s


def is_without_worker(silent_s: float | None) -> bool:
    """Whether no worker runs, by ``read_silent_s``: a restart takes a moment, so one lease may pass."""
    return silent_s is None or silent_s > 2 * LEASE.total_seconds()
