"""The table of jobs that send deliveries again, which is called as the first migration of it did: ``resend_job``."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.webhooks.redelivery import RedeliveryJob
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table

REDELIVERY_JOB: Final = Table(
    "resend_job",
    RedeliveryJob,
    """
    id bigint, holder_id bigint, asked_by text, endpoint_id bigint, statuses text[], event_types text[],
    initial_at timestamptz, final_at timestamptz, status text, expected_count bigint, looked_at_count bigint,
    resent_count bigint, at_endpoint_id bigint, at_instant timestamptz, at_id bigint, created_at timestamptz,
    ended_at timestamptz
    """,
    read={
        "statuses": (tuple, "statuses"),
        "event_types": (tuple, "event_types"),
        "redelivered_count": (None, "resent_count"),
    },
    write={"resent_count": lambda job: job.redelivered_count},
)
_NEW: Final = REDELIVERY_JOB.without("id")

_INSERT: Final[LiteralString] = f"""
    insert into resend_job ({_NEW.names}) values ({_NEW.parameters})
    on conflict (holder_id) where status = 'running' do nothing returning {REDELIVERY_JOB.select}
"""


async def insert(connection: Connection, job: RedeliveryJob) -> RedeliveryJob | None:
    """Add a job, whose id is made here; ``None`` if one of its holder runs already."""
    return REDELIVERY_JOB.read_found(await connection.fetchrow(_INSERT, *_NEW.values(job)))


_FIND: Final[LiteralString] = f"""
    select {REDELIVERY_JOB.select} from resend_job where id = $1 and ($2::bigint is null or holder_id = $2)
"""


async def find(pool: Pool, job_id: int, holder_id: int | None) -> RedeliveryJob | None:
    return REDELIVERY_JOB.read_found(await pool.fetchrow(_FIND, job_id, holder_id))


_LIST: Final[LiteralString] = f"""
    select {REDELIVERY_JOB.select} from resend_job where $1::bigint is null or holder_id = $1 order by id desc limit $2
"""


async def list_newest(pool: Pool, holder_id: int | None, count_max: int) -> list[RedeliveryJob]:
    return [REDELIVERY_JOB.read(row) for row in await pool.fetch(_LIST, holder_id, count_max)]


_LIST_RUNNING: Final[LiteralString] = "select id from resend_job where status = 'running' order by id limit $1"


async def list_running(pool: Pool, count_max: int) -> list[int]:
    return [row["id"] for row in await pool.fetch(_LIST_RUNNING, count_max)]


# Another worker is at it already: then this one leaves it.
_LOCK: Final[LiteralString] = f"""
    select {REDELIVERY_JOB.select} from resend_job where id = $1 and status = 'running' for update skip locked
"""


async def lock_running(connection: Connection, job_id: int) -> RedeliveryJob | None:
    return REDELIVERY_JOB.read_found(await connection.fetchrow(_LOCK, job_id))


_MOVED: Final = REDELIVERY_JOB.only(
    "id", "status", "looked_at_count", "resent_count", "at_endpoint_id", "at_instant", "at_id", "ended_at"
)
_UPDATE: Final[LiteralString] = f"""
    update resend_job set {_MOVED.assignments} from (select {_MOVED.parameters}) as new ({_MOVED.names})
    where resend_job.id = new.id
"""


async def update(connection: Connection, job: RedeliveryJob) -> None:
    await connection.execute(_UPDATE, *_MOVED.values(job))


_CANCEL: Final[LiteralString] = f"""
    update resend_job set status = 'cancelled', ended_at = $3
    where id = $1 and ($2::bigint is null or holder_id = $2) and status = 'running' returning {REDELIVERY_JOB.select}
"""


async def cancel(connection: Connection, job_id: int, holder_id: int | None, now: datetime) -> RedeliveryJob | None:
    """End a job that runs, after the batch that is under way."""
    return REDELIVERY_JOB.read_found(await connection.fetchrow(_CANCEL, job_id, holder_id, now))
