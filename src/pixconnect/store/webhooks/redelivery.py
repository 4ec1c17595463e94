"""Sends again one delivery, all that a filter matches, or events, in batches.

A delivery goes again on a new schedule, together with all deliveries of the same body. If its event is no longer kept there is
nothing to send. Events go again as new deliveries.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.domain.webhooks import key_webhook
from pixconnect.domain.webhooks.delivery import DeliveryStatus
from pixconnect.domain.webhooks.endpoint import Endpoint
from pixconnect.domain.webhooks.redelivery import RedeliveryFilter, RedeliveryJob
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import listing as listing_store

REDELIVERY_LOCKS: Final = 0x7078_6104
"""A class of advisory locks, by endpoint."""


def _restarted(now: LiteralString) -> LiteralString:
    return f"status = 'pending', due_at = {now}, failures_count = 0, modified_at = {now}"


# One delivery.

_FIND_TOLD_TOGETHER: Final[LiteralString] = """
    select first.id, first.covers from delivery join delivery as first
        on first.id = coalesce(delivery.covered_by, delivery.id) and first.holder_id = delivery.holder_id
    where delivery.id = $1 and delivery.holder_id = $2
"""


async def find_told_together(connection: Connection, holder_id: int, delivery_id: int) -> list[int]:
    """The deliveries that one body tells with this one: first that in which it is kept, or will be."""
    row = await connection.fetchrow(_FIND_TOLD_TOGETHER, delivery_id, holder_id)
    return [] if row is None else [row["id"], *(row["covers"] or ())]


_RESTART: Final[LiteralString] = f"""
    update delivery set {_restarted("$3")}
    where id = any($2) and exists (
        select from delivery as first
        join event on event.id = first.event_id and event.holder_id = first.holder_id where first.id = $1
    )
"""


async def restart(connection: Connection, delivery_ids: Sequence[int], now: datetime) -> None:
    """Start a new schedule, now, for all that one body tells; all of them are locked."""
    await connection.execute(_RESTART, delivery_ids[0], delivery_ids, now)


# What a filter matches.


class RedeliveryBatch(Struct, frozen=True, kw_only=True):
    count: int
    """Among those that the filter matches."""
    looked_at_count: int
    end: tuple[datetime, int]
    """The last one that it read."""


# $1 endpoint, $2 its holder, $3 statuses, $4 types, $5 newest instant, $6 and $7 the place to go on after, $8 how many,
# $9 oldest instant, $10 now.
def _chosen(status: LiteralString) -> LiteralString:
    # In the order of the index: however much of it another status has, a batch looks at no more than it may.
    # Failed and pending deliveries have indexes of their own, if the text says so.
    return f"""
        select id, holder_id, event_id, status, created_at, covers, covered_by from delivery
        where endpoint_id = $1 {status} and created_at <= $5 and (created_at, id) > ($6, $7)
        order by created_at, id limit $8
    """


def _is_of_type(name: LiteralString) -> LiteralString:
    return f"""(
        select $4::text[] is null or event.name = any($4) from event
        where event.id = {name}.event_id and event.holder_id = {name}.holder_id
    )"""


_END: Final[LiteralString] = """
    (select count(*) from chosen) as looked_at_count, created_at, id
    from chosen order by created_at desc, id desc limit 1
"""
# Deliveries of one body go together if any of them matches: with the oldest one that does, so that no later batch sends them
# once more. The status is that of the delivery that holds the body. If the event is no longer kept there is nothing to send.
_FOUND: Final[LiteralString] = f"""
    select alone.id as first_id, array[alone.id] as ids, 1 as count from chosen as alone
    where alone.covers is null and alone.covered_by is null and alone.holder_id = $2 and alone.status = any($3::text[])
        and {_is_of_type("alone")}
    union all
    select first.id, first.id || first.covers, matching.count from chosen as member
    cross join lateral (
        select id, covers, event_id from delivery
        where id = coalesce(member.covered_by, member.id) and holder_id = $2 and status = any($3::text[]) and covers is not null
    ) as first
    cross join lateral (
        select count(*), bool_or(told.id = member.id)
            and bool_and((told.created_at, told.id) >= (member.created_at, member.id)) as is_earliest
        from delivery as told
        where told.id = any(first.id || first.covers) and told.holder_id = $2 and told.created_at between $9 and $5
            and {_is_of_type("told")}
    ) as matching
    where (member.covers is not null or member.covered_by is not null) and member.holder_id = $2
        and matching.is_earliest
"""


def _redeliver(status: LiteralString) -> LiteralString:
    # Locked in order of id, as every process locks deliveries.
    return f"""
        with chosen as materialized ({_chosen(status)}),
        found as materialized ({_FOUND}),
        locked as (
            select delivery.id, delivery.holder_id, delivery.status, delivery.event_id from delivery
            where delivery.id = any(array(select unnest(ids) from found)) and delivery.holder_id = $2
            order by delivery.id for no key update
        ),
        started as (
            select found.ids, found.count from found join locked on locked.id = found.first_id
            where locked.status = any($3::text[])
                and exists (select from event where event.id = locked.event_id and event.holder_id = locked.holder_id)
        ),
        restarted as (
            update delivery set {_restarted("$10")} from locked
            where delivery.id = locked.id and delivery.holder_id = locked.holder_id
                and locked.id = any(array(select unnest(ids) from started))
        )
        select coalesce((select sum(count) from started), 0)::bigint as count, {_END}
    """


def _count(status: LiteralString) -> LiteralString:
    return f"""
        with chosen as materialized ({_chosen(status)}),
        found as materialized ({_FOUND})
        select coalesce((select sum(count) from found), 0)::bigint as count, {_END}
    """


_ONLY: Final[dict[tuple[DeliveryStatus, ...], LiteralString]] = {
    ("failed",): "and status = 'failed'",
    ("pending",): "and status = 'pending'",
}
_REDELIVER, _REDELIVER_ONLY = _redeliver(""), {only: _redeliver(status) for only, status in _ONLY.items()}
_COUNT, _COUNT_ONLY = _count(""), {only: _count(status) for only, status in _ONLY.items()}


async def redeliver_some(
    connection: Connection,
    endpoint: Endpoint,
    job: RedeliveryJob,
    after: tuple[datetime, int],
    now: datetime,
    count_max: int,
) -> RedeliveryBatch | None:
    """Start the schedules of some of a job's deliveries to an endpoint anew, the oldest first; ``None`` at the end."""
    row = await connection.fetchrow(
        _REDELIVER_ONLY.get(job.statuses, _REDELIVER),
        endpoint.id,
        endpoint.holder_id,
        list(job.statuses),
        list(job.event_types) or None,
        job.final_at,
        *after,
        count_max,
        job.initial_at,
        now,
    )
    return None if row is None else _batch(row)


async def count_some(
    pool: Pool, endpoint: Endpoint, wanted: RedeliveryFilter, after: tuple[datetime, int], count_max: int
) -> RedeliveryBatch | None:
    """Count those that a filter matches among some of an endpoint's deliveries; ``None`` at the end."""
    oldest, newest = listing_store.bounds_of(wanted.initial_at, wanted.final_at)
    row = await pool.fetchrow(
        _COUNT_ONLY.get(wanted.statuses, _COUNT),
        endpoint.id,
        endpoint.holder_id,
        list(wanted.statuses),
        list(wanted.event_types) or None,
        newest,
        *after,
        count_max,
        oldest,
    )
    return None if row is None else _batch(row)


def _batch(row: asyncpg.Record) -> RedeliveryBatch:
    return RedeliveryBatch(
        count=row["count"], looked_at_count=row["looked_at_count"], end=(row["created_at"], row["id"])
    )


# Events of an interval, told to one endpoint.

# Deliveries that wait for the endpoint already would otherwise go twice.
_IS_NOT_PENDING: Final[LiteralString] = """not exists (
            select from delivery where delivery.endpoint_id = $1 and delivery.resource_id = event.resource_id
                and delivery.event_id = event.id and delivery.status = 'pending'
        )"""
_COUNT_EVENTS: Final[LiteralString] = f"""
    select count(*) from (
        select from event
        where holder_id = $2 and name = any($3) and created_at between $4 and $5 and {_IS_NOT_PENDING}
        limit $6
    ) as matching
"""


async def count_events(
    connection: Connection | Pool, endpoint: Endpoint, since: datetime, until: datetime, count_max: int
) -> int:
    """How many events would go to an endpoint again; counting stops at ``count_max``."""
    given = endpoint.id, endpoint.holder_id, list(endpoint.event_types), since, until, count_max
    if endpoint.pix_key is None:
        return await connection.fetchval(_COUNT_EVENTS, *given)
    return await connection.fetchval(_COUNT_KEY_EVENTS, *given, endpoint.pix_key)


_REDELIVER_EVENTS: Final[LiteralString] = f"""
    with chosen as (
        select id, holder_id, resource, resource_id, slot, created_at from event
        where holder_id = $2 and name = any($3) and created_at <= $5 and (created_at, id) > ($4, $6) and {_IS_NOT_PENDING}
        order by created_at, id limit $8
    ),
    told as (
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), holder_id, $1, id, resource, resource_id, slot, 'pending', $7, $7, $7
        from (select * from chosen order by created_at, id) as chosen
    )
    select created_at, id from chosen order by created_at, id
"""


# Looked up event by event, whatever the planner believes about the tables: a join has read all of them.
_OF_PIX: Final[LiteralString] = """
    event cross join lateral (
        select coalesce(
            (
                select refund.transfer_id from refund
                where event.resource = 'refund' and refund.id = event.resource_id and refund.holder_id = event.holder_id
            ),
            event.resource_id
        ) as id offset 0
    ) as pix
"""
_IS_TOLD: Final[LiteralString] = """
    (select own_key from transfer where transfer.id = pix.id and transfer.holder_id = event.holder_id) = $7
    and not exists (
        select from delivery where delivery.endpoint_id = $1 and delivery.resource_id = pix.id
            and delivery.event_id = event.id and delivery.status = 'pending'
    )
"""
_COUNT_KEY_EVENTS: Final[LiteralString] = f"""
    select count(*) from (
        select from {_OF_PIX}
        where event.holder_id = $2 and event.name = any($3) and event.created_at between $4 and $5 and {_IS_TOLD}
        limit $6
    ) as matching
"""
_REDELIVER_KEY_EVENTS: Final[LiteralString] = f"""
    with chosen as (
        select event.id, event.holder_id, event.created_at, pix.id as transfer_id from {_OF_PIX}
        where event.holder_id = $2 and event.name = any($3) and event.created_at <= $5
            and (event.created_at, event.id) > ($4, $6) and {_IS_TOLD}
        order by event.created_at, event.id limit $9
    ),
    told as (
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), holder_id, $1, id, '{key_webhook.RESOURCE}', transfer_id, $1 % 256, 'pending', $8, $8, $8
        from (select * from chosen order by created_at, id) as chosen
    )
    select created_at, id from chosen order by created_at, id
"""


async def redeliver_events(
    connection: Connection,
    endpoint: Endpoint,
    job: RedeliveryJob,
    after: tuple[datetime, int],
    now: datetime,
    count_max: int,
) -> RedeliveryBatch | None:
    """Make new deliveries of some old events, of the types that the endpoint asks for, that do not wait for it already.

    ``None`` at the end.
    """
    given = endpoint.id, endpoint.holder_id, list(endpoint.event_types), after[0], job.final_at, after[1]
    if endpoint.pix_key is None:
        rows = await connection.fetch(_REDELIVER_EVENTS, *given, now, count_max)
    else:
        rows = await connection.fetch(_REDELIVER_KEY_EVENTS, *given, endpoint.pix_key, now, count_max)
    if not rows:
        return None
    end = rows[-1]["created_at"], rows[-1]["id"]
    return RedeliveryBatch(count=len(rows), looked_at_count=len(rows), end=end)


_TRY_LOCK: Final[LiteralString] = "select pg_try_advisory_lock($1, $2)"
_UNLOCK: Final[LiteralString] = "select pg_advisory_unlock($1, $2)"


@asynccontextmanager
async def redelivering_events(connection: Connection, endpoint_id: int) -> AsyncGenerator[bool]:
    """Lock out other redeliveries to an endpoint; yields ``False`` if another one is running."""
    # The lock takes 31 bits of the id; of two endpoints that share them one is refused while the other has its turn.
    lock = (REDELIVERY_LOCKS, endpoint_id % 2**31)
    is_alone: bool = await connection.fetchval(_TRY_LOCK, *lock)
    try:
        yield is_alone
    finally:
        if is_alone:
            try:
                await connection.execute(_UNLOCK, *lock)
            except BaseException:
                # The lock ends with its session.
                connection.terminate()
                raise
