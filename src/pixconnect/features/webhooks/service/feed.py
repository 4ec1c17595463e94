"""The feed of a holder's events: a worker assigns positions, and programs that keep a cursor read pages.

Events are written independently of the feed. After the commit, the sequencer assigns a position behind all earlier ones: a
program that has read up to a position has seen everything up to there, for ever.

Waiting requests are woken when a worker assigns positions. One connection listens for all of them in this process, and only
while there are any. A slow poll finds positions whose notification was lost.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, get_args

import asyncpg
import structlog
from msgspec import Struct

from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.features.webhooks.tables.feed import FEED_CHANNEL, NewPositions, read_feed_notice
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import Event, EventName, Resource
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.notifier import REJOIN_AFTER_S, Connect, keep_listening
from pixconnect.platform.pool import Pool
from pixconnect.platform.shared_look import wait_for

PAGE_SIZE_MAX: Final = 1000
WAIT_MAX_S: Final = 30  # below the minute after which proxies give up
GIVEN_MAX: Final = 10_000  # events that get their positions in one transaction
SWEPT_MAX: Final = 200_000
LOOKED_AT_MAX: Final = 5_000  # the maximum of events read for one page, before its filter
STALLED_S: Final = 60  # if an event waits longer than this for its position, the sequencer does not work
_ID_MAX: Final = 2**53 - 1
_NO_LONGER_KEPT: Final = "cursor: the events after it are no longer kept; begin again without a cursor, at the oldest that are"
_SET_BACK: Final = "cursor: leads beyond the last event, so the database was set back; begin again without a cursor"

_log = structlog.get_logger(__name__)


class FeedCursor(Struct, frozen=True, kw_only=True, order=True):
    position: int
    passed_count: int  # the number of earlier events at this position


class FeedQuery(Struct, frozen=True, kw_only=True):
    cursor: FeedCursor | None = None
    start: Literal["oldest", "now"] = "oldest"  # where to begin without a cursor
    page_size: int = 100
    names: frozenset[EventName] | None = None
    resource: Resource | None = None
    any_id: str | None = None  # any id of a charge, transfer, refund or movement

    @property
    def is_filtered(self) -> bool:
        return not self.names == self.resource == self.any_id == None  # noqa: E711


class FeedEvent(Struct, frozen=True, kw_only=True):
    """An event, with the present state of its subject."""

    event: Event
    charge: Charge | None = None
    transfer: Transfer | None = None  # for a paid charge, the payment
    refund: Refund | None = None
    next: FeedCursor  # continues after this event


class FeedPage(Struct, frozen=True, kw_only=True):
    events: list[FeedEvent]
    next: FeedCursor
    has_more: bool  # whether there is more now; a filter may leave a page empty before the end


_BEGINNING: Final = FeedCursor(position=0, passed_count=0)


async def give_positions(context: Context, given_max: int = GIVEN_MAX) -> NewPositions:
    """Assign positions to newly committed events, and wake the requests that wait for them."""
    with on_behalf_of_all():
        given = await feed_store.give_positions(context.pool, given_max)
        # After the commit, outside of any transaction: a notification would make that queue behind all others.
        if given.holder_ids:
            await feed_store.notify_positions(context.pool, given.holder_ids)
    return given


async def sweep_positions(context: Context, swept_max: int = SWEPT_MAX) -> int:
    """Assign positions to missed events; return how many there were."""
    with on_behalf_of_all():
        late = await feed_store.sweep_positions(context.pool, swept_max)
        if late:
            _log.error("events had no position in the feed and were found by the sweep", events_count=len(late))
            await feed_store.notify_positions(context.pool, sorted(set(late)))
    return len(late)


async def read_feed(context: Context, caller: Caller, query: FeedQuery, looked_at_max: int = LOOKED_AT_MAX) -> FeedPage:
    """Read the events after a query's cursor, in order.

    Raises:
        CursorExpired: Events after the cursor are no longer kept, or the cursor belongs to a database that was lost.
        BadRequest: The id in the query has a form that no id has.
    """
    cursor = query.cursor or _BEGINNING
    wanted_count = looked_at_max if query.is_filtered else query.page_size
    # One more shows whether there are more. Events before the cursor at its own position count too.
    ids_count = wanted_count + cursor.passed_count + 1
    rows = await feed_store.read_rows(context.pool, caller.holder_id, cursor.position, ids_count)
    end = FeedCursor(position=rows.last_position + 1, passed_count=0)
    if query.cursor is not None:
        if query.cursor.position < rows.first_position:
            raise errors.CursorExpired(_NO_LONGER_KEPT)
        if query.cursor > end:
            raise errors.CursorExpired(_SET_BACK)
    elif query.start == "now":
        return FeedPage(events=[], next=end, has_more=False)
    # The ids of the events after the cursor, each with the cursor after it.
    places = [
        (event_id, FeedCursor(position=position, passed_count=number))
        for position, event_ids in rows.found
        for number, event_id in enumerate(event_ids, start=1)
        if (position, number) > (cursor.position, cursor.passed_count)
    ]
    looked_at, has_more = places[:wanted_count], len(places) > wanted_count
    found = await _read_events(context.pool, caller.holder_id, query, [event_id for event_id, _ in looked_at])
    if len(found) > query.page_size:
        found, has_more = found[: query.page_size], True
        after = looked_at[found[-1][0]][1]
    else:
        # At the end the cursor advances although nothing was found: otherwise it would expire where little happens.
        after = looked_at[-1][1] if has_more else end
    events = [(event, looked_at[number][1]) for number, event in found]
    return FeedPage(events=await _add_details(context.pool, caller.holder_id, events), next=after, has_more=has_more)


async def _read_events(pool: Pool, holder_id: int, query: FeedQuery, event_ids: Sequence[int]) -> list[tuple[int, Event]]:
    if not event_ids:
        return []
    resources = None
    if query.any_id is not None:
        # After the rows: their subjects were committed before they got their positions.
        is_number = query.any_id.isascii() and query.any_id.isdecimal() and len(query.any_id) <= len(str(_ID_MAX))
        number = int(query.any_id) if is_number else None
        resources = await feed_store.find_resources(pool, holder_id, query.any_id, number)
    names = None if query.names is None else sorted(query.names)
    # One more than the page shows whether there is a next one.
    found = await feed_store.read_events(pool, holder_id, event_ids, query.page_size + 1, names, query.resource, resources)
    # Events have partitions of their own, which may be a little earlier than their positions.
    if query.cursor is not None:
        is_whole = (
            await feed_store.has_event(pool, holder_id, event_ids[0]) if query.is_filtered else len(found) == len(event_ids)
        )
        if not is_whole:
            raise errors.CursorExpired(_NO_LONGER_KEPT)
    return found


async def _add_details(pool: Pool, holder_id: int, events: Sequence[tuple[Event, FeedCursor]]) -> list[FeedEvent]:
    ids: dict[Resource, set[int]] = {kind: set() for kind in get_args(Resource)}
    for event, _ in events:
        ids[event.resource].add(event.resource_id)
    charges = await charge_store.find_by_ids(pool, holder_id, ids["charge"]) if ids["charge"] else {}
    paying = await transfer_store.find_all_paying(pool, holder_id, ids["charge"]) if ids["charge"] else {}
    transfers = await transfer_store.find_by_ids(pool, holder_id, ids["transfer"]) if ids["transfer"] else {}
    refunds = await refund_store.find_by_ids(pool, holder_id, ids["refund"]) if ids["refund"] else {}
    made: list[FeedEvent] = []
    for event, cursor in events:
        number = event.resource_id
        match event.resource:
            case "charge":
                one = FeedEvent(event=event, next=cursor, charge=charges.get(number), transfer=paying.get(number))
            case "transfer":
                one = FeedEvent(event=event, next=cursor, transfer=transfers.get(number))
            case "refund":
                one = FeedEvent(event=event, next=cursor, refund=refunds.get(number))
            case _:
                one = FeedEvent(event=event, next=cursor)
        made.append(one)
    return made


async def read_lag_s(pool: Pool, clock: Clock) -> float:
    """Return how long the oldest event has waited for its position."""
    oldest_at, given_before_s = await feed_store.read_sequencer_backlog(pool)
    if oldest_at is None:
        return 0.0
    lag_s = (await service_now(clock, pool) - oldest_at).total_seconds()
    # A moved clock makes a new event look old.
    return max(0.0, min(lag_s, given_before_s))


async def check_feed(pool: Pool, clock: Clock) -> None:
    lag_s = await read_lag_s(pool, clock)
    if lag_s > STALLED_S:
        raise errors.ServiceUnavailable(f"the oldest event has waited for its position in the feed for {lag_s:.0f} s")


HOLDER_MAX: Final = 64  # maximum for one holder in one process: more programs than one feed has
ALL_MAX: Final = 2048
POLL_S: Final = 5.0
LINGER_S: Final = 60.0  # how long the connection stays without waiting requests
RETRY_AFTER_S: Final = 1


class FeedWaits:
    def __init__(self, connect: Connect, poll_s: float = POLL_S) -> None:
        self._connect = connect
        self._poll_s = poll_s
        self._waiting: dict[int, set[asyncio.Event]] = defaultdict(set)
        self._count = 0
        self._is_listening = asyncio.Event()
        self._is_wanted = asyncio.Event()
        self._has_ended = False

    @asynccontextmanager
    async def hold(self, holder_id: int) -> AsyncGenerator[Callable[[float], Awaitable[bool]]]:
        """Receive notifications of a holder's events while the block runs; read events after entering it.

        Yields a function that waits, for so many seconds, until there may be something; false if the time is up, or the
        process stops.
        """
        if len(self._waiting.get(holder_id, ())) >= HOLDER_MAX:
            raise errors.RateLimited(f"at most {HOLDER_MAX} requests of yours may wait for events", RETRY_AFTER_S)
        if self._count >= ALL_MAX:
            raise errors.ServiceUnavailable("too many requests wait for events: ask without wait_s", RETRY_AFTER_S)
        woken = asyncio.Event()
        self._waiting[holder_id].add(woken)
        self._count += 1
        self._is_wanted.set()
        try:
            # A request that reads before the listener is there would miss later positions.
            await wait_for(self._is_listening, REJOIN_AFTER_S)
            yield partial(self._wait, woken)
        finally:
            self._count -= 1
            self._waiting[holder_id].discard(woken)
            # Otherwise each holder that ever waited would leave an empty set.
            if not self._waiting[holder_id]:
                del self._waiting[holder_id]
            if not self._count:
                self._is_wanted.clear()

    async def _wait(self, woken: asyncio.Event, seconds: float) -> bool:
        if seconds <= 0 or self._has_ended:
            return False
        await wait_for(woken, min(seconds, self._poll_s))
        # Cleared before the caller reads: a later notification wakes it again.
        woken.clear()
        return not self._has_ended

    def end(self) -> None:
        """End all waiting requests: the process is about to stop."""
        self._has_ended = True
        self._wake(None)

    async def listen(self) -> None:
        """Listen while a request waits, until cancelled."""
        await keep_listening(
            self._connect_when_wanted, FEED_CHANNEL, lambda notice: self._wake(read_feed_notice(notice)), self._stay
        )

    async def _connect_when_wanted(self) -> asyncpg.Connection[asyncpg.Record]:
        await self._is_wanted.wait()
        return await self._connect()

    async def _stay(self, lost: asyncio.Event) -> None:
        self._is_listening.set()
        try:
            # Events may have got positions before we listened.
            self._wake(None)
            while not lost.is_set() and (self._count or await wait_for(self._is_wanted, LINGER_S)):
                await wait_for(lost, LINGER_S)
        finally:
            self._is_listening.clear()

    def _wake(self, holder_ids: frozenset[int] | None) -> None:
        for holder_id in self._waiting.keys() if holder_ids is None else self._waiting.keys() & holder_ids:
            for woken in self._waiting[holder_id]:
                woken.set()
