"""The console's lists: of one holder or of all, by any filter; and of deliveries, events and endpoints.

Fields with an index (holder, status, instant) are listed with their exact total, as callers' lists are. For any other field
rows are scanned, back from the newest, for a bounded time; the answer has the oldest instant read, and the next page continues
there. With few holders the statement merges their own places in the indexes. No index is added for this: each would slow every
new charge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import asyncpg
from msgspec import Struct, structs

from pixconnect.doors.console.wanted import LISTED, Browsed, Wanted, check_names, check_span
from pixconnect.features.finding.tables import browse as browse_store
from pixconnect.features.finding.tables import search as search_store
from pixconnect.features.finding.tables import timeline as timeline_store
from pixconnect.features.finding.tables.browse import Awaited, BrowsePosition, Chunk, Lookback
from pixconnect.features.monitoring import tables as figures_store
from pixconnect.features.webhooks.rules import endpoint as endpoint_rules
from pixconnect.features.webhooks.rules.delivery import Delivery, DeliveryStatus
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointState
from pixconnect.features.webhooks.tables import delivery_history
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.kernel.flows.context import Context, Core
from pixconnect.kernel.rules.access import Viewer
from pixconnect.kernel.rules.charge import STATUSES, Charge
from pixconnect.kernel.rules.event import EVENT_NAMES, Event
from pixconnect.kernel.rules.listing import Cursor, Span, write_cursor
from pixconnect.kernel.rules.refund import Refund, RefundStatus
from pixconnect.kernel.rules.transfer import Transfer, TransferStatus
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import event as event_store
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.listing import Source
from pixconnect.kernel.tables.table import Table, split_pairs
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Pool

LOOK_BACK_S: Final = 0.3  # maximum time of a search for one page
_FIRST_LOOK: Final = 500
_LOOK_MAX: Final = 50_000
HOLDERS_MERGED_MAX: Final = 100
"""For up to this many holders, rows of a status or a time are found by each one's index; for more, all rows are scanned."""
_HOLDERS_OF_FIRST_LOOK: Final = 10
_LOOK_S: Final = 0.06  # a scan faster than this is followed by one over more rows
_LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)

Item = TypeVar("Item")
Listed = TypeVar("Listed", Charge, Transfer, Refund)


class Kind(Struct, Generic[Listed], frozen=True, kw_only=True):
    name: Literal["charge", "transfer", "refund"]
    table: Table[Listed]
    statuses: tuple[str, ...]
    source: Source
    lookback: Lookback


CHARGES: Final = Kind(
    name="charge",
    table=charge_store.CHARGE,
    statuses=STATUSES,
    source=listing_store.source_of_statuses("charge", charge_store.CHARGE.select),
    lookback=browse_store.CHARGES,
)
TRANSFERS: Final = Kind(
    name="transfer",
    table=transfer_store.TRANSFER,
    statuses=get_args(TransferStatus),
    source=listing_store.source_of_statuses("transfer", transfer_store.TRANSFER.select),
    lookback=browse_store.TRANSFERS,
)
REFUNDS: Final = Kind(
    name="refund",
    table=refund_store.REFUND,
    statuses=get_args(RefundStatus),
    source=listing_store.source("refund", refund_store.REFUND.select),
    lookback=browse_store.REFUNDS,
)


async def browse(
    context: Core, viewer: Viewer, kind: Kind[Listed], wanted: Wanted, after: str | None = None, page_size: int = 50
) -> Browsed[Listed]:
    """A page of one kind, newest first; the instants of a transfer or refund are those of its settlement.

    Raises:
        Forbidden: The viewer may not see them.
    """
    viewer.require_sight(kind.name)
    statuses = check_names("status", wanted.statuses, kind.statuses)
    wanted = wanted if kind.name == "charge" else wanted.by_payment()
    span = check_span(wanted, after, page_size)
    listed = _one_or_all(statuses, kind.statuses) if kind.source.of_status else statuses
    if viewer.holder_id is not None and not wanted.is_filtered and listed != ():
        if _is_whole(span):
            total = await tally_store.read_total(context.pool, viewer.holder_id, kind.name, statuses)
            span = _from_the_newest(span, total)
        page = await listing_store.read_page(context.pool, kind.source, viewer.holder_id, listed, span)
        next_after = None if page.next is None else write_cursor(page.next, LISTED)
        return Browsed(items=[*map(kind.table.read, page.items)], total_count=page.total_count, next=next_after)

    is_narrowed = statuses != kind.statuses or _has_instants(wanted)
    found = await _search(context, viewer, kind.lookback, wanted, statuses, span, is_narrowed=is_narrowed)
    return with_items(found, [*map(kind.table.read, found.items)])


async def name_charges(context: Core, viewer: Viewer, transfers: Sequence[Transfer]) -> dict[int, str]:
    """What callers call the charges that these transfers have paid, as far as the viewer may see charges."""
    wanted = [(each.charge_id, each.holder_id) for each in transfers if each.charge_id is not None]
    may_see = wanted and viewer.may_see("charge")
    return await browse_store.read_charge_names(context.pool, *split_pairs(wanted)) if may_see else {}


async def find_payments(context: Core, viewer: Viewer, charges: Collection[tuple[int, int]]) -> dict[int, Transfer]:
    """Find the payments of these charges, named by id and holder, as far as the viewer may see transfers; by charge."""
    found = await browse_store.find_payments(context.pool, *split_pairs(charges)) if viewer.may_see("transfer") else []
    return {each.charge_id: each for each in found if each.charge_id is not None}


async def find_refunded(context: Core, viewer: Viewer, refunds: Sequence[Refund]) -> dict[int, Transfer]:
    """Find the transfers that these refunds return, by refund, as far as the viewer may see transfers."""
    pairs = {each.id: (each.transfer_id, each.holder_id) for each in refunds if viewer.may_see("transfer")}
    found = await browse_store.find_refunded(context.pool, list(pairs.values())) if pairs else {}
    return {refund_id: found[pair] for refund_id, pair in pairs.items() if pair in found}


class Marks(Struct, frozen=True, kw_only=True):
    """What a list shows of charges and transfers beside their state."""

    returned: Mapping[tuple[str, str], int]  # the cents given back, by kind and id
    contested: Mapping[tuple[str, str], int]  # the open infraction
    waiting: Mapping[tuple[str, str], Awaited]


async def read_marks(context: Core, viewer: Viewer, shown: Iterable[tuple[str, int, int]]) -> Marks:
    """Read the marks of charges and transfers, each named by its kind, id and holder."""
    wanted = [one for one in shown if one[0] in {"charge", "transfer"}]
    contested = await search_store.find_contested(context.pool, wanted) if viewer.may_see("infraction") else {}
    return Marks(
        returned=await browse_store.read_returned(context.pool, wanted),
        contested=contested,
        waiting=await browse_store.find_awaiting(context.pool, wanted),
    )


async def _search(
    context: Core, viewer: Viewer, lookback: Lookback, wanted: Wanted, names: tuple[str, ...], span: Span, *, is_narrowed: bool
) -> Browsed[asyncpg.Record]:
    # Processes take ids in blocks, so with few holders the newest are found by their instants, in any order of ids.
    is_whole = not (is_narrowed or wanted.is_filtered or wanted.event_types)
    # The holders whose rows are merged by their indexes; ``None`` for all holders, whose rows are read by id. Fields without an
    # index are searched faster by id: a scan reads no more rows than requested.
    whose: Sequence[int] | None = None
    if viewer.holder_id is not None:
        whose = [viewer.holder_id]
    elif is_narrowed or is_whole:
        found = await figures_store.next_holders(context.pool, 0, HOLDERS_MERGED_MAX + 1)
        whose = found if len(found) <= HOLDERS_MERGED_MAX else None
    look = partial(browse_store.look_back, context.pool, lookback, whose, wanted, names)
    return await look_back(context, look, span, whose, is_whole=is_whole)


def _is_whole(span: Span) -> bool:
    return span.after is None and span.initial_at is None and span.final_at is None


def _from_the_newest(span: Span, total_count: int) -> Span:
    """Return the first page as one by cursor, which costs the same for any length: its hours need not be read."""
    newest = Cursor(created_at=_LATEST, id=2**63 - 1, position=0, total_count=total_count)
    return structs.replace(span, after=newest)


def _one_or_all(statuses: tuple[str, ...], known: tuple[str, ...]) -> str | tuple[()] | None:
    """For a list by one status or by all; nothing for several, which it does not support."""
    return None if statuses == known else statuses[0] if len(statuses) == 1 else ()


async def browse_events(
    context: Context, viewer: Viewer, wanted: Wanted, after: str | None = None, page_size: int = 50
) -> Browsed[Event]:
    """List events, of some types or of all; as ``browse``."""
    viewer.require_sight("event")
    names = check_names("event type", wanted.event_types, tuple(EVENT_NAMES))
    span = check_span(wanted, after, page_size)
    if viewer.holder_id is not None and not wanted.event_types:
        if _is_whole(span):
            span = _from_the_newest(span, await tally_store.read_events_total(context.pool, viewer.holder_id))
        page = await feed_store.list_events(context.pool, viewer.holder_id, span)
        next_after = None if page.next is None else write_cursor(page.next, LISTED)
        return Browsed(items=page.items, total_count=page.total_count, next=next_after)
    asked = Wanted(initial_at=wanted.initial_at, final_at=wanted.final_at, event_types=wanted.event_types)

    found = await _search(context, viewer, browse_store.EVENTS, asked, names, span, is_narrowed=_has_instants(wanted))
    return with_items(found, [*map(event_store.EVENT.read, found.items)])


async def read_charge_amounts(context: Core, viewer: Viewer, events: Sequence[Event]) -> dict[int, int]:
    """Read the cents of the charges that these events are about, by their ids, as far as the viewer may see charges."""
    wanted = [(each.resource_id, each.holder_id) for each in events if each.resource == "charge"]
    charges = await search_store.find_charges(context.pool, wanted) if wanted and viewer.may_see("charge") else {}
    return {each.id: each.amount_cents for each in charges.values()}


Look = Callable[[BrowsePosition, int, int], Awaitable[Chunk]]


def _has_instants(wanted: Wanted) -> bool:
    return wanted.initial_at is not None or wanted.final_at is not None


async def look_back(
    context: Core, look: Look, span: Span, whose: Sequence[int] | None, *, is_whole: bool = False
) -> Browsed[asyncpg.Record]:
    """Scan more and more rows, until a page is full, nothing is left or the time is over.

    Args:
        is_whole: Whether every row is shown, so that the first scan is no more than a page.
    """
    began_s = context.clock.monotonic_s()
    _, newest = listing_store.bounds(span.initial_at, span.final_at)
    at, last_id = (newest, 2**63 - 1) if span.after is None else listing_store.begin_after(span.after, newest)
    # If ids alone give the order, an instant beyond the span's end gives none.
    if whose is None and span.after is not None:
        last_id = span.after.id
    before, rows = BrowsePosition(at=at, id=last_id), list[asyncpg.Record]()
    # Each of many holders may have all rows of a scan: the first is no more than a page.
    look_at_count = span.page_size + 1 if whose and (is_whole or len(whose) > _HOLDERS_OF_FIRST_LOOK) else _FIRST_LOOK
    while True:
        look_began_s = context.clock.monotonic_s()
        # One more row than the page shows whether there is a next one.
        chunk = await look(before, look_at_count, span.page_size + 1 - len(rows))
        rows += chunk.rows
        if len(rows) > span.page_size:
            last = rows[span.page_size - 1]
            next_after = _cursor_text(span, last["created_at"], last["id"])
            return Browsed(items=rows[: span.page_size], next=next_after)
        if chunk.end is None or chunk.looked_at_count < look_at_count:
            return Browsed(items=rows)
        before, took_s = chunk.end, context.clock.monotonic_s() - look_began_s
        if took_s < _LOOK_S:
            look_at_count = min(2 * look_at_count, _LOOK_MAX)
        # A scan takes at most twice as long as the one before.
        if context.clock.monotonic_s() - began_s + 2 * took_s > LOOK_BACK_S:
            return Browsed(items=rows, next=_cursor_text(span, before.at, before.id), searched_to=before.at)


def _cursor_text(span: Span, created_at: datetime, last_id: int) -> str:
    position = span.position + span.page_size
    return write_cursor(Cursor(created_at=created_at, id=last_id, position=position, total_count=0), LISTED)


def with_items(found: Browsed[Any], items: Sequence[Item]) -> Browsed[Item]:
    return Browsed(items=items, total_count=found.total_count, next=found.next, searched_to=found.searched_to)


ENDPOINTS_MAX: Final = 1_000  # maximum of endpoints whose deliveries are listed together
PENDING_COUNTED_MAX: Final = 1_000


class DeliveryLine(Struct, frozen=True, kw_only=True):
    delivery: Delivery
    event_name: str | None  # ``None`` if the event is no longer kept
    endpoint: Endpoint | None  # ``None`` if it was deleted
    is_held_back: bool = False  # whether an earlier one must go first


async def browse_deliveries(
    context: Context, viewer: Viewer, wanted: Wanted, after: str | None = None, page_size: int = 50
) -> Browsed[DeliveryLine]:
    """List deliveries to one endpoint or to all present ones; as ``browse``."""
    viewer.require_sight("delivery")
    statuses = check_names("status", wanted.statuses, get_args(DeliveryStatus))
    check_names("event type", wanted.event_types, tuple(EVENT_NAMES))
    span = check_span(wanted, after, page_size)
    endpoints = {each.id: each for each in await _find_endpoints(context.pool, viewer, wanted.endpoint_id)}
    look = partial(browse_store.look_back_at_deliveries, context.pool, [*endpoints], wanted, statuses)
    found = await look_back(context, look, span, [])
    deliveries = await delivery_history.read_listed(context.pool, found.items)
    events = split_pairs([(delivery.event_id, delivery.holder_id) for delivery in deliveries])
    names = await browse_store.read_event_names(context.pool, *events)
    held_back = await timeline_store.find_held_back(context.pool, [each.id for each in deliveries])
    lines = [
        DeliveryLine(
            delivery=delivery,
            event_name=names.get(delivery.event_id),
            endpoint=endpoints[delivery.endpoint_id],
            is_held_back=delivery.id in held_back,
        )
        for delivery in deliveries
    ]
    return with_items(found, lines)


async def _find_endpoints(pool: Pool, viewer: Viewer, endpoint_id: int | None) -> list[Endpoint]:
    async with pool.acquire() as connection:
        found = await endpoint_store.find_some(connection, viewer.holder_id, endpoint_id, ENDPOINTS_MAX)
    if not found and endpoint_id is not None:
        raise errors.NotFound("endpoint: there is no such endpoint")
    return found


class EventView(Struct, frozen=True, kw_only=True):
    event: Event
    deliveries: Sequence[DeliveryLine]  # to present endpoints, and to those that were deleted last


async def read_event(context: Context, viewer: Viewer, event_id: int) -> EventView:
    viewer.require_sight("event")
    event = errors.found(
        await timeline_store.find_event(context.pool, event_id, viewer.holder_id), "id: there is no such event"
    )
    # A viewer of all holders sees the event's endpoints among those of the event's holder.
    owner = structs.replace(viewer, holder_id=event.holder_id)
    endpoints = {each.id: each for each in await _find_endpoints(context.pool, owner, None)}
    removed_ids = await endpoint_store.list_removed(context.pool, event.holder_id)
    deliveries = await timeline_store.find_deliveries(context.pool, [*endpoints, *removed_ids], [event])
    lines = [
        DeliveryLine(delivery=delivery, event_name=event.name, endpoint=endpoints.get(delivery.endpoint_id))
        for delivery in deliveries
    ]
    return EventView(event=event, deliveries=lines)


class EndpointLine(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    state: EndpointState


async def list_endpoint_lines(context: Core, viewer: Viewer, endpoint_id: int | None = None) -> list[EndpointLine]:
    """List endpoints by id, each with its state; a single one must exist."""
    viewer.require_sight("endpoint")
    endpoints = await _find_endpoints(context.pool, viewer, endpoint_id)
    backlogs = await endpoint_store.read_backlogs(context.pool, [each.id for each in endpoints], PENDING_COUNTED_MAX)
    return [
        EndpointLine(endpoint=endpoint, state=endpoint_rules.describe_state(endpoint, *backlogs[endpoint.id]))
        for endpoint in endpoints
    ]
