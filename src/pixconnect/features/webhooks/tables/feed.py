"""The feed: events by position, and the assignment of positions.

Both functions that assign positions are in the schema, which explains why they miss none. Any process may call them at any
time: a lock in the database serializes callers.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.feature import Lookup, list_lookups
from pixconnect.kernel.rules.event import Event, EventName, Resource
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.event import EVENT
from pixconnect.kernel.tables.listing import AFTER, AFTER_ORDER, Source
from pixconnect.kernel.tables.lookup import Tuples, Value
from pixconnect.kernel.tables.table import fetch_row
from pixconnect.kernel.tables.tally import webhook_hours_statement
from pixconnect.platform.pool import Pool

_OF_SPAN: Final[LiteralString] = "from event where holder_id = $1 and created_at between $2 and $3"
_LISTED_EVENTS: Final = Source(
    hours=webhook_hours_statement("event", "made"),
    page=f"select {EVENT.select} {_OF_SPAN} order by created_at desc, id desc offset $4 limit $5",
    page_after=f"select {EVENT.select} from event where holder_id = $1 and {AFTER} {AFTER_ORDER}",
    count=f"select count(*) {_OF_SPAN}",
)


async def list_events(pool: Pool, holder_id: int, span: Span) -> Page[Event]:
    page = await listing_store.read_page(pool, _LISTED_EVENTS, holder_id, None, span)
    return page.with_items([EVENT.read(row) for row in page.items])


FEED_CHANNEL: Final = "pixconnect_feed"
"""Notifies, after the commit, of holders whose events got positions; an empty text means any holder."""
_TOLD_MAX: Final = 400  # a notification has at most 8000 octets


class NewPositions(Struct, frozen=True, kw_only=True):
    events_count: int
    holder_ids: Sequence[int]
    has_more: bool


IS_ANY_NEW: Final[LiteralString] = """
    (select settled_id from event_feed_state) < (
        select case when is_called then last_value + seqincrement - 1 else last_value - 1 end
        from write_group_id, pg_sequence where seqrelid = 'write_group_id'::regclass
    )
"""
"""Whether ids were given out beyond the settled ones, as ``give_event_positions`` asks first."""

_GIVE: Final[LiteralString] = (
    "select holder_ids, events_count, has_more from give_event_positions($1) where refuse_old_session()"
)


async def give_positions(pool: Pool, count_max: int) -> NewPositions:
    """Assign positions to events that have become visible; to the oldest, if there are too many."""
    row = await fetch_row(pool, _GIVE, count_max)
    return NewPositions(events_count=row["events_count"], holder_ids=row["holder_ids"] or (), has_more=row["has_more"])


async def sweep_positions(pool: Pool, count_max: int) -> Sequence[int]:
    """Search again for events without a position; return the holder of each one found."""
    return await pool.fetchval("select sweep_event_positions($1) where refuse_old_session()", count_max) or ()


async def notify_positions(pool: Pool, holder_ids: Sequence[int]) -> None:
    notice = ",".join(map(str, holder_ids)) if len(holder_ids) <= _TOLD_MAX else ""
    await pool.execute("select pg_notify($1, $2)", FEED_CHANNEL, notice)


def read_feed_notice(notice: str) -> frozenset[int] | None:
    """Return the holders whose events have got positions; ``None`` if they were too many to list."""
    return frozenset(map(int, notice.split(","))) if notice else None


class Rows(Struct, frozen=True, kw_only=True):
    found: Sequence[tuple[int, Sequence[int]]]  # positions, each with the ids of a holder's events there
    first_position: int  # the first kept position, of all holders
    last_position: int  # the last position of any holder when the rows were read


# One snapshot for all three, or a position could be assigned between the rows and the last one.
_READ_ROWS: Final[LiteralString] = """
    select last_position, position, event_ids,
        (select min(first_id) from event_partition where parent = 'event_feed' and detached_at is null) as first_position
    from event_feed_state
    left join lateral (
        select position, event_ids from (
            select position, event_ids,
                sum(cardinality(event_ids)) over (order by position rows unbounded preceding) - cardinality(event_ids) as before
            from (
                select position, event_ids from event_feed where holder_id = $1 and position >= $2 order by position limit $3
            ) as following
        ) as counted where before < $3
    ) as feed on true
    order by position
"""


async def read_rows(pool: Pool, holder_id: int, position: int, ids_count: int) -> Rows:
    """Read a holder's rows from a position on: all, or enough for that many events."""
    found = await pool.fetch(_READ_ROWS, holder_id, position, ids_count)
    return Rows(
        found=[(row["position"], row["event_ids"]) for row in found if row["position"] is not None],
        first_position=found[0]["first_position"],
        last_position=found[0]["last_position"],
    )


_READ_EVENTS: Final[LiteralString] = f"""
    select wanted.number, {EVENT.select}
    from unnest($1::bigint[], $2::bigint[]) with ordinality as wanted (id, holder_id, number)
    join event on event.id = wanted.id and event.holder_id = wanted.holder_id
    where ($3::text[] is null or name = any($3)) and ($4::text is null or resource = $4)
        and ($5::bigint[] is null or (resource, resource_id) in (select * from unnest($6::text[], $5::bigint[])))
    order by wanted.number limit $7
"""


async def read_events(
    pool: Pool,
    holder_id: int,
    event_ids: Sequence[int],
    count_max: int,
    names: Sequence[EventName] | None,
    resource: Resource | None,
    resources: Sequence[tuple[Resource, int]] | None,
) -> list[tuple[int, Event]]:
    """Read these events if they match, each with its place among the given ids, from 0."""
    rows = await pool.fetch(
        _READ_EVENTS,
        event_ids,
        [holder_id] * len(event_ids),
        names,
        resource,
        None if resources is None else [number for _, number in resources],
        None if resources is None else [kind for kind, _ in resources],
        count_max,
    )
    return [(row["number"] - 1, EVENT.read(row)) for row in rows]


has_event: Final = Value[bool, int, int]("select exists (select from event where holder_id = $1 and id = $2)")


def _union(lookup: Lookup) -> LiteralString:
    table = f" union select '{lookup.kind}', id from {lookup.kind} where holder_id = $1 and "
    return "".join(table + condition for condition in lookup.match("$2", "$3"))


find_resources: Final = Tuples[tuple[Resource, int], int, str, int | None](
    """
    select 'charge' as resource, id from charge where holder_id = $1 and id = $3
    union select 'charge', id from charge where holder_id = $1 and external_id = $2
    union select 'charge', id from charge where holder_id = $1 and txid = $2
    union select 'transfer', id from transfer where holder_id = $1 and id = $3
    union select 'transfer', id from transfer where holder_id = $1 and external_id = $2
    union select 'transfer', id from transfer where holder_id = $1 and end_to_end_id = $2
    union select 'transfer', id from transfer where holder_id = $1 and network_id = $2
    union select 'refund', id from refund where holder_id = $1 and id = $3
    union select 'refund', id from refund where holder_id = $1 and external_id = $2
    union select 'refund', id from refund where holder_id = $1 and return_id = $2
    union select 'refund', id from refund where holder_id = $1 and network_id = $2
    union select 'movement', id from movement where holder_id = $1 and item_id = $2 and id is not null
    union select 'movement', id from movement where holder_id = $1 and id = $3
"""
    + "".join(map(_union, list_lookups()))
)

# If the sequencer stands still, the first of so many has no position; if it works, fewer are beyond the bound.
_READ_WAITING: Final[LiteralString] = """
    select extract(epoch from clock_timestamp() - given_at)::float8 as given_before_s, (
        select created_at from event where id = (
            select min(id) from (
                (select id from event where id > settled_id order by id limit 50000)
                except
                select unnest(event_ids) from event_feed where position > settled_position
            ) as waiting
        )
    ) as oldest_at
    from event_feed_state
"""


async def read_sequencer_backlog(pool: Pool) -> tuple[datetime | None, float]:
    """Return when the oldest event without a position happened, and how many seconds of real time ago any got one."""
    row = await fetch_row(pool, _READ_WAITING)
    return row["oldest_at"], row["given_before_s"]
