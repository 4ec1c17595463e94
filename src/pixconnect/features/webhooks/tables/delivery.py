"""Deliveries for workers: due ones, their order, and the results of attempts.

No write claims work: the worker that leases a slot reads its due rows, and its records are fenced. Reads advance from a cursor,
and do not scan delivered rows again.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from typing import Final, LiteralString

from pixconnect.features.webhooks.rules import endpoint
from pixconnect.features.webhooks.rules.delivery import Attempt, BacklogWalk, Conclusion, DueCursor, DueDelivery, DueRead
from pixconnect.features.webhooks.rules.endpoint import KeyWebhookEvent
from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables import event as event_store
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables.clock import DatabaseClock
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Column, Command, Value
from pixconnect.kernel.tables.table import Columns, Part, Table, no_arguments, numbered, of_columns, or_null, read_types
from pixconnect.platform.pool import Connection, Pool

DUE: Final = Table(
    "delivery",
    DueDelivery,
    """
    id bigint, holder_id bigint, endpoint_id bigint, event_id bigint, resource text, resource_id bigint,
    slot smallint, due_at timestamptz, attempts_count integer, failures_count smallint, covers bigint[]
    """,
    read={"covers": (or_null(tuple), "covers")},
    joined=("body",),
)

ATTEMPT: Final = Table(
    "delivery_attempt",
    Attempt,
    "number integer, started_at timestamptz, status_code smallint, duration_us bigint, response text, error text",
    key=("number",),
)

APPEND: Final = Part[Event](
    name="delivery_row",
    sql="""
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), event_row.holder_id, webhook_endpoint.id, event_row.id, resource, resource_id, slot,
            'pending', event_row.created_at, event_row.created_at, event_row.created_at
        from event_row
        join webhook_endpoint on webhook_endpoint.holder_id = case
                when exists (select from holder where family_id is not null) then coalesce(
                    (select successor_id from holder where holder.id = event_row.holder_id), event_row.holder_id
                ) else event_row.holder_id end
            and webhook_endpoint.status = 'active' and webhook_endpoint.pix_key is null
            and event_row.name = any(webhook_endpoint.event_types)
        returning 1
    """,
    arguments=no_arguments,
    returns="any row",
    reads=event_store.APPEND,
)
"""A delivery of each new event for each active endpoint with its type."""
DELIVERIES: Final = Fact(rank=210, inserts=(APPEND,), key=None)
EVENT_FACTS: Final = (DELIVERIES,)

KEY_EVENT: Final = Columns[KeyWebhookEvent](
    read_types("""
        event_id bigint, holder_id bigint, transfer_id bigint, pix_key text, has_txid boolean, is_sent boolean,
        announced_at timestamptz
    """),
    key=(),
    write={},
)

# All deliveries of one such webhook share a slot, so one worker has all due ones and puts them into few bodies.
APPEND_KEY_EVENTS: Final = of_columns(
    KEY_EVENT,
    once=[],
    name="key_event_row",
    sql=f"""
        insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at, created_at,
            modified_at)
        select nextval('delivery_id'), happened.holder_id, webhook_endpoint.id, event_id, '{endpoint.KEY_WEBHOOK_RESOURCE}',
            transfer_id, webhook_endpoint.id % 256, 'pending', announced_at, announced_at, announced_at
        from ({{rows}}) as happened ({{names}})
        left join transfer on happened.pix_key is null and transfer.id = transfer_id and transfer.holder_id = happened.holder_id
        join key_webhook on key_webhook.pix_key = coalesce(happened.pix_key, transfer.own_key)
            and key_webhook.holder_id = coalesce(
                (select successor_id from holder where holder.id = happened.holder_id), happened.holder_id
            )
        join webhook_endpoint on webhook_endpoint.id = key_webhook.endpoint_id and webhook_endpoint.status = 'active'
            and (not is_sent or 'transfer.out.confirmed' = any(webhook_endpoint.event_types))
            and (is_sent or has_txid or transfer.txid is not null or not webhook_endpoint.only_with_txid)
        returning 1
    """,
    returns="any row",
)
"""A delivery of each event for the webhooks of keys, if the key has one."""
KEY_WEBHOOK_EVENTS: Final = Fact(rank=220, inserts=(APPEND_KEY_EVENTS,), key=None)

# No earlier event of the same resource still waits for the same endpoint.
_NOT_HELD_BACK: Final[LiteralString] = """
    not exists (
        select from delivery as earlier
        where earlier.endpoint_id = candidate.endpoint_id and earlier.resource_id = candidate.resource_id
            and earlier.resource = candidate.resource and earlier.status = 'pending'
            and (earlier.event_id, earlier.id) < (candidate.event_id, candidate.id)
    )
"""

# The first delivery that a notice covers stores its body, and workers try only that one.
_CANDIDATE: Final[LiteralString] = f"{DUE.select}, delivery.notice, delivery.covered_by"
_OF_CANDIDATE: Final[LiteralString] = ", ".join([f"candidate.{name}" for name in DUE.types])

# No statement reads or counts a delivery that is in memory already. Ranges are searched by bisection, and a subselect reads
# them once.
_NOT_KNOWN: Final[LiteralString] = "not delivery.id <@ (select {}::text::int8multirange)"

IS_ANY_DUE: Final[LiteralString] = """
    exists (select from delivery where due_at <= $2::timestamptz and slot = any($1::smallint[]) and status = 'pending')
"""
"""For slots ``$1`` at ``$2``."""
# The clock is returned even if nothing is due.
_READ_DUE: Final[LiteralString] = f"""
    select clock.*, {_OF_CANDIDATE}, case when ready.body is not null then coalesce(notice, ready.body) end as body
    from ({clock_store.READ}) as clock left join ((
        select {_CANDIDATE} from delivery
        where (delivery.due_at, delivery.id) > ($1, $2) and delivery.due_at <= $3 and delivery.slot = any($4::smallint[])
            and delivery.status = 'pending' and {_NOT_KNOWN.format("$7")}
        order by delivery.due_at, delivery.id limit $5
    ) as candidate
    left join lateral (
        select event.body from event
        left join webhook_endpoint on webhook_endpoint.id = candidate.endpoint_id
        where event.id = candidate.event_id and event.holder_id = candidate.holder_id
            and coalesce(webhook_endpoint.status, 'active') = 'active' -- those of a deleted one are given up
            and candidate.covered_by is null and candidate.endpoint_id <> all($6::bigint[]) and {_NOT_HELD_BACK}
    ) as ready on true) on true
    order by candidate.due_at, candidate.id
"""


async def read_due(
    pool: Pool,
    cursor: DueCursor,
    until: datetime,
    slots: Sequence[int],
    count_max: int,
    passed_over: Sequence[int],
    known_ids: Sequence[int] = (),
) -> tuple[DatabaseClock, DueRead]:
    """Read the clock and the next due deliveries, except those in memory and those of endpoints with the maximum in memory."""
    # A row without its event is not ready: it, or its endpoint, is delayed. It counts as read all the same.
    known = _ranges(known_ids)
    rows = await pool.fetch(_READ_DUE, cursor.due_at, cursor.id, until, slots, count_max, passed_over, known)
    # One row with the clock alone if nothing is due.
    due = rows if rows[0]["id"] is not None else []
    return clock_store.clock_of(rows[0]), DueRead(
        ready=[DUE.read(row) for row in due if row["body"] is not None],
        held_back=[(row["endpoint_id"], row["resource"], row["resource_id"]) for row in due if row["body"] is None],
        unfinished=DueCursor(due_at=due[-1]["due_at"], id=due[-1]["id"]) if len(due) == count_max else None,
    )


def _ranges(ids: Sequence[int]) -> str:
    """Write ids as a PostgreSQL ``int8multirange``; most are consecutive."""
    ordered = sorted(ids)
    firsts = [each for before, each in pairwise([-math.inf, *ordered]) if each > before + 1]
    lasts = [each for each, after in pairwise([*ordered, math.inf]) if after > each + 1]
    return "{" + ",".join([f"[{first},{last}]" for first, last in zip(firsts, lasts, strict=True)]) + "}"


_READ_FOLLOWERS: Final[LiteralString] = f"""
    select {_OF_CANDIDATE}, coalesce(notice, event.body) as body
    from unnest($1::bigint[], $2::text[], $3::bigint[]) as done (endpoint_id, resource, resource_id)
    cross join lateral (
        select {_CANDIDATE} from delivery
        where delivery.endpoint_id = done.endpoint_id and delivery.resource_id = done.resource_id
            and delivery.resource = done.resource and delivery.status = 'pending'
        order by delivery.event_id, delivery.id limit 1
    ) as candidate
    join event on event.id = candidate.event_id and event.holder_id = candidate.holder_id
    join webhook_endpoint on webhook_endpoint.id = candidate.endpoint_id and webhook_endpoint.status = 'active'
    where candidate.due_at <= $4 and candidate.covered_by is null
"""
_FIND_COVERED: Final[LiteralString] = "select endpoint_id, resource, resource_id from delivery where id = any($1)"


async def read_followers(pool: Pool, done: Sequence[DueDelivery], until: datetime) -> list[DueDelivery]:
    """Read the next due deliveries of the same endpoints and resources; call it after ``done`` were committed."""
    # Before that commit a follower was read as delayed, and the cursor has passed it.
    keys = list({(due.endpoint_id, due.resource, due.resource_id) for due in done})
    if covered_ids := [covered_id for due in done for covered_id in due.covers or ()]:
        keys += [tuple(row) for row in await pool.fetch(_FIND_COVERED, covered_ids)]
    rows = await pool.fetch(
        _READ_FOLLOWERS, [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys], until
    )
    return [DUE.read(row) for row in rows]


_READ_BACKLOG: Final[LiteralString] = f"""
    select {_OF_CANDIDATE}, case when event.id is not null then coalesce(notice, event.body) end as body
    from (
        select {_CANDIDATE} from delivery
        where delivery.endpoint_id = $1 and delivery.resource_id > $2 and delivery.resource_id <= $3
            and delivery.status = 'pending' and {_NOT_KNOWN.format("$7")}
        order by delivery.resource_id, delivery.event_id, delivery.id limit $6
    ) as candidate
    left join event on event.id = candidate.event_id and event.holder_id = candidate.holder_id
        and candidate.slot = any($4) and candidate.due_at <= $5 and candidate.covered_by is null and {_NOT_HELD_BACK}
    order by candidate.resource_id, candidate.event_id, candidate.id
"""
_FIND_LAST_RESOURCE: Final[LiteralString] = """
    select resource_id from delivery where endpoint_id = $1 and status = 'pending'
    order by resource_id desc, event_id desc, id desc limit 1
"""


async def read_backlog(
    pool: Pool,
    endpoint_id: int,
    walk: BacklogWalk,
    slots: Sequence[int],
    until: datetime,
    count_max: int,
    known_ids: Sequence[int] = (),
) -> tuple[list[DueDelivery], BacklogWalk | None]:
    """Walk through one endpoint's pending deliveries, resource by resource: there are more than a worker keeps in memory.

    Returns:
        The deliverable ones, and where to continue; ``None`` at the end.
    """
    known = _ranges(known_ids)
    of_walk = (walk.after_resource_id, walk.until_resource_id)
    rows = await pool.fetch(_READ_BACKLOG, endpoint_id, *of_walk, slots, until, count_max, known)
    ready = [DUE.read(row) for row in rows if row["body"] is not None]
    if len(rows) < count_max:
        return ready, None
    # The next walk finds deliveries that are made meanwhile: under load this one would never end, and those committed behind it
    # would wait for that.
    until_id = walk.until_resource_id
    if walk.is_at_start:
        until_id = await pool.fetchval(_FIND_LAST_RESOURCE, endpoint_id) or 0
    return ready, BacklogWalk(after_resource_id=rows[-1]["resource_id"], until_resource_id=until_id)


# If an owner requests a new schedule during an attempt, the count of failures is reset: then the new schedule stands, and not
# the old one's continuation after that attempt.
_STANDS: Final[LiteralString] = "(result.status = 'delivered' or delivery.failures_count = result.failures_before)"

_RESULT: Final = Columns[Conclusion](
    {
        **read_types("""
            id bigint, holder_id bigint, status text, due_at timestamptz, failures_before smallint,
            failures_count smallint, ended_at timestamptz
        """),
        **ATTEMPT.types,
    },
    key=(),
    write={
        "id": attrgetter("delivery.id"),
        "holder_id": attrgetter("delivery.holder_id"),
        "failures_before": attrgetter("delivery.failures_count"),
    }
    | {name: attrgetter(f"attempt.{name}") for name in ATTEMPT.types},
)
_ATTEMPTED: Final[LiteralString] = ", ".join([f"result.{name}" for name in ATTEMPT.types])
# The fence is part of it, so it needs no transaction: the slots are locked and counted before the first row is touched.
# The status is filtered row by row: a plan that expects almost no pending rows would walk all of them for each result.
_RECORD: Final = of_columns(
    _RESULT,
    # Most attempts are first ones with the same successful answer.
    once=["status, due_at, failures_before, failures_count, number, status_code, response, error"],
    name="result",
    sql=f"""
    with held as materialized ({lease_store.HOLD}),
    judged as materialized (
        select (select count(*) from held) = cardinality($1) as is_held,
            not exists (select from webhook_endpoint where id = any($3) and first_failure_at is not null) as are_sound
    ),
    result ({{names}}) as materialized ({{rows}}),
    recorded as (
        update delivery set
            status = case when {_STANDS} then result.status else delivery.status end,
            due_at = case when {_STANDS} then result.due_at else delivery.due_at end,
            failures_count = case when {_STANDS} then result.failures_count else delivery.failures_count end,
            attempts_count = result.number,
            modified_at = result.ended_at
        from result
        where delivery.id = result.id and delivery.holder_id = result.holder_id and delivery.status || '' = 'pending'
            and delivery.attempts_count = result.number - 1 and (select is_held and are_sound from judged)
        returning delivery.id, {_ATTEMPTED}
    ),
    attempt as (insert into delivery_attempt (delivery_id, {ATTEMPT.names}) select * from recorded)
    select is_held and are_sound from judged
    """,
)


async def record(
    connection: Connection, epochs: Mapping[int, int], conclusions: Sequence[Conclusion], sound_ids: Sequence[int] = ()
) -> bool:
    """Write attempts and their effect on their deliveries.

    Args:
        epochs: Under which their slots are leased.
        conclusions: At most one for each delivery, in order of id, to avoid deadlocks.
        sound_ids: Endpoints that must not have failed before; a success would end their failures.

    Returns:
        Whether it was written: not if another worker has one of the slots, or one of these endpoints has failed.
    """
    # The attempt's number shows that it was written before: it is not written again.
    sql, arguments = _RECORD.fit(conclusions)
    fenced = (list(epochs), list(epochs.values()), sound_ids)
    return await connection.fetchval(numbered(sql, len(arguments), len(fenced) + 1), *fenced, *arguments)


give_up_orphans: Final = Command[Sequence[int], datetime]("""
    update delivery set status = 'failed', due_at = null, modified_at = $2
    where id = any($1) and status = 'pending'
        and not exists (select from webhook_endpoint where webhook_endpoint.id = delivery.endpoint_id)
""")

_DUE: Final[LiteralString] = f"""
    from delivery as candidate
    join webhook_endpoint on webhook_endpoint.id = candidate.endpoint_id and webhook_endpoint.status = 'active'
    where candidate.status = 'pending' and candidate.due_at <= $1 and {_NOT_HELD_BACK}
"""
_NEXT_DUE: Final[LiteralString] = f"select min(candidate.due_at) {_DUE} and candidate.endpoint_id <> all($2::bigint[])"


async def next_due_at(
    connection: Connection | Pool, until: datetime, except_endpoint_ids: Collection[int] = ()
) -> datetime | None:
    """Return when the earliest delivery without an obstacle is due, if by then; some endpoints do not count."""
    return await connection.fetchval(_NEXT_DUE, until, list(except_endpoint_ids))


find_due_endpoints: Final = Column[int, datetime](f"select distinct candidate.endpoint_id {_DUE}")

count_due: Final = Value[int, datetime, int]("""
    select count(*) from (select from delivery where status = 'pending' and due_at <= $1 limit $2) as due
""")
"""Count deliveries due by an instant, delayed or not, up to ``count_max``."""

move_deliveries_back: Final = Command[datetime, timedelta]("""
    with endpoint as (
        update webhook_endpoint set
            first_failure_at = case when first_failure_at > $1 then first_failure_at - $2::interval else first_failure_at end,
            previous_secret_until = previous_secret_until
                - case when modified_at > $1 then $2::interval else interval '0' end
        where first_failure_at > $1 or (modified_at > $1 and previous_secret_until is not null)
    )
    update delivery set due_at = due_at - $2::interval where status = 'pending' and modified_at > $1
""")
"""Move due times back that were set at an instant that is in the future now: the clock was reset to ``now``."""
