"""The sandbox clock: walks from deadline to deadline, and everything due on the way is done.

::

    now ──► first deadline ──► all that is due by then is done ──► next deadline ──► ... ──► target
            (those within a moment of it are one stop)

Walking four days takes only as long as their work. One process walks at a time. Work that cannot be done in time falls due at
the target.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from pixconnect.features.sandbox.rules import READ_DUE, SET_OFFSET, SandboxControl, SandboxUnavailable
from pixconnect.features.webhooks.service.delivery import wait_until_sent
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.charge import expire_charges
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.settlement import ASK_AFTER, ASK_AFTER_MAX
from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables.clock import Deadline, service_now
from pixconnect.platform.base import errors
from pixconnect.platform.logging import has_written
from pixconnect.platform.notifier import Connect, keep_listening

WALK_MAX_S: Final = 24.0  # real seconds that a walk may take
WINDOW: Final = timedelta(milliseconds=500)
"""Deadlines this near to each other are one stop: far below the 5 s of the shortest webhook retry."""
WIDE_WINDOW: Final = timedelta(seconds=4)
"""Likewise once a walk has taken long: hundreds of charges made over minutes must not use up its time."""

_HURRY_AFTER_S = 4.0
_SLOW_AFTER_S = 4.0  # a walk waits for an endpoint this long at a stop; after that, only at its end

_STEP_S = 0.005
_HEARD_AFTER_S = 0.02  # by then every process has received the notification of a move
_LOOK_AGAIN_S = 0.05
_LATEST = datetime.fromisoformat("9000-01-01T00:00:00+00:00")
BEHIND_MAX: Final = timedelta(days=30)
"""Maximum distance behind real time: a reset walks all of it again, deadline by deadline."""
_EXPIRED_MAX = 1000
_ALL_SLOTS = range(SLOTS_COUNT)
_DEADLINES: Final = gather("deadlines", Deadline)


async def read_clock(context: Context) -> datetime:
    await service_now(context.clock, context.pool)
    return context.clock.now()


async def advance_clock(context: Context, control: SandboxControl, by: timedelta) -> datetime:
    async with _moving_alone(context):
        return await _walk(context, control, await read_clock(context) + by)


async def move_clock(context: Context, control: SandboxControl, target: datetime) -> datetime:
    """Walk the clock forward, or jump back; return its time once everything due is done, or the walk took too long."""
    async with _moving_alone(context):
        now = await read_clock(context)
        if target < now:
            if target < context.clock.real_now() - BEHIND_MAX:
                raise errors.BadRequest(f"now: the clock goes back to {BEHIND_MAX.days} days before real time at most")
            return await _jump_back(context, control, context.clock.offset - (now - target))
        return await _walk(context, control, target)


async def reset_clock(context: Context, control: SandboxControl) -> datetime:
    """Return to real time. Open deadlines move back by as much as the clock does."""
    async with _moving_alone(context):
        await read_clock(context)
        if context.clock.offset < timedelta(0):
            await _walk(context, control, context.clock.real_now())
            # Real time has passed during the walk, and little is left of that.
            return await _walk(context, control, context.clock.real_now())
        return await _jump_back(context, control, timedelta(0))


async def agree_with_sandbox(context: Context, control: SandboxControl) -> None:
    """Send the sandbox the time again: an interrupted move leaves the two apart."""
    async with context.pool.acquire() as connection, clock_store.moving_alone(connection) as is_alone:
        # Otherwise the process that moves it sets both.
        if is_alone:
            await service_now(context.clock, connection)
            await control.call(SET_OFFSET, context.clock.offset)


def receive_move(context: Context, notice: str) -> None:
    """Take a notification of ``clock_store.CHANNEL``, so that answers from memory are dated right too."""
    context.clock.set_offset(*clock_store.read_offset_notice(notice))


async def follow_clock(context: Context, connect: Connect) -> None:
    """Listen for moves of the clock, until cancelled."""

    async def stay(lost: asyncio.Event) -> None:
        # After the listener is connected, which has missed earlier moves.
        await read_clock(context)
        await lost.wait()

    await keep_listening(connect, clock_store.CHANNEL, partial(receive_move, context), stay)


@asynccontextmanager
async def _moving_alone(context: Context) -> AsyncGenerator[None]:
    async with _holding_lock(context):
        try:
            yield
        except SandboxUnavailable as error:
            raise errors.ServiceUnavailable(error.summary) from None
    # Other processes date their answers from memory: this is time for the notification to reach them.
    await asyncio.sleep(_HEARD_AFTER_S)


@asynccontextmanager
async def _holding_lock(context: Context) -> AsyncGenerator[None]:
    # The lock is polled, without a connection meanwhile: there are ten, and other work needs them.
    deadline_s = context.clock.monotonic_s() + WALK_MAX_S
    while True:
        async with context.pool.acquire() as connection, clock_store.moving_alone(connection) as is_alone:
            if is_alone:
                yield
                return
        if context.clock.monotonic_s() > deadline_s:
            raise errors.ServiceUnavailable("another request is moving the clock")
        await asyncio.sleep(_LOOK_AGAIN_S)


class _Walk:
    """A walk's remaining time, and the endpoints that it no longer waits for."""

    def __init__(self, context: Context, started_at_s: float) -> None:
        self.context = context
        self.slow_endpoint_ids: set[int] = set()
        self.ends_at_s = started_at_s + WALK_MAX_S
        self.hurries_at_s = started_at_s + _HURRY_AFTER_S
        self.timeout_s = _SLOW_AFTER_S


async def _walk(context: Context, control: SandboxControl, target: datetime) -> datetime:
    if target > _LATEST:
        raise errors.BadRequest("advance_s, now: the clock goes to the year 9000 at most")
    clock = context.clock
    walk = _Walk(context, clock.monotonic_s())
    is_in_time = await _finish_due(control, walk)
    while is_in_time:
        stop = await _next_stop(control, target, walk)
        if stop is None:
            break
        await _set_time(control, walk, stop)
        is_in_time = await _finish_due(control, walk)
    # Time was up, or no deadline is left before the target.
    if clock.now() < target:
        await _set_time(control, walk, target)
    if is_in_time:
        # At the last stop slow endpoints are waited for too, while there is time.
        walk.timeout_s = WALK_MAX_S
        walk.slow_endpoint_ids.clear()
        await _finish_due(control, walk)
    return clock.now()


async def _next_stop(control: SandboxControl, target: datetime, walk: _Walk) -> datetime | None:
    """Return the next deadline before the target, joined with those close to it; ``None`` if there is none."""
    pool = walk.context.pool
    sandbox = await control.call(READ_DUE, None)
    due = await clock_store.find_first_due(pool, _DEADLINES)
    delivery_due = await delivery_store.next_due_at(pool, target, walk.slow_endpoint_ids)
    first = min(filter(None, (due, delivery_due, sandbox.next_due_at)), default=None)
    if first is None or first >= target:
        return None
    window = WIDE_WINDOW if walk.context.clock.monotonic_s() > walk.hurries_at_s else WINDOW
    last = await clock_store.find_last_due(pool, _DEADLINES, min(first + window, target))
    return first if last is None else max(first, last)


async def _set_time(control: SandboxControl, walk: _Walk, now: datetime) -> None:
    clock = walk.context.clock
    # Never back: real time may have overtaken the stop.
    offset = max(now - clock.real_now(), clock.offset)
    has_written.set(True)  # whatever fails from now on
    clock.set_offset(offset, await clock_store.move(walk.context.pool, offset))
    await control.call(SET_OFFSET, offset)


async def _finish_due(control: SandboxControl, walk: _Walk) -> bool:
    """Wait until workers have done everything due; ``False`` if the time for walking is up."""
    walk.context.wake_workers()
    while walk.context.clock.monotonic_s() < walk.ends_at_s:
        if await _is_all_done(control, walk):
            return True
        await asyncio.sleep(_STEP_S)
    return False


async def _is_all_done(control: SandboxControl, walk: _Walk) -> bool:
    context = walk.context
    now = context.clock.now()
    sandbox = await control.call(READ_DUE, None)
    if sandbox.reports_count or (sandbox.next_due_at is not None and sandbox.next_due_at <= now):
        return False
    if await clock_store.is_anything_undone(context.pool, _DEADLINES):
        return False
    # Reports from a charge's time are recorded now: charges that are still due were not paid.
    await expire_charges(context, _ALL_SLOTS, now, _EXPIRED_MAX)
    first_due_at = await clock_store.find_first_due(context.pool, _DEADLINES)
    if first_due_at is not None and first_due_at <= now:
        return False
    timeout_s = min(walk.timeout_s, max(0.0, walk.ends_at_s - context.clock.monotonic_s()))
    if not await wait_until_sent(context, now, timeout_s, walk.slow_endpoint_ids):
        # Its other deliveries are sent all the same: one bad endpoint must not cost the others their attempts.
        walk.slow_endpoint_ids.update(await delivery_store.find_due_endpoints(context.pool, now))
    return True


async def _jump_back(context: Context, control: SandboxControl, offset: timedelta) -> datetime:
    """Set the clock; open deadlines move back with it, and a move forward waits for nothing."""
    await read_clock(context)
    if by := context.clock.offset - offset:
        now = context.clock.real_now() + offset
        async with context.pool.acquire() as connection, connection.transaction():
            if by > timedelta(0):
                await clock_store.move_deadlines_back(connection, now, by, ASK_AFTER, ASK_AFTER_MAX)
                await delivery_store.move_deliveries_back(connection, now, by)
                for move_back in filter(None, (each.move_back for each in _DEADLINES)):
                    await move_back(connection, now, by)
            revision = await clock_store.move(connection, offset)
            has_written.set(True)
        context.clock.set_offset(offset, revision)
    await control.call(SET_OFFSET, offset)
    return context.clock.now()
