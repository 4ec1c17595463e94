"""A cell that is about to be closed for a move sends no money meanwhile: no call at an institution goes on behind its gate.

::

    held ──── every account of the cell, in its row: whoever is about to call takes its step in one statement that looks at it
    quiet ─── no step says *calling*; or all calls of before are over, whatever their process came to
    sends ─── again at the new place from its first moment on, or where it was if the move was undone, taken back or cut off

Without that a call of the former place might arrive at the institution after the new place has asked about it, and was told
that nobody knows it. What is accepted meanwhile leaves afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.institutions import rail_step as step_store
from pixconnect.store.institutions.account_hold import Hold
from pixconnect.usecases.running.cell_mover import CellMove, until_done
from pixconnect.usecases.running.installation import InstallationError

_LOOK_EVERY_S: Final = 0.2


CheckHold = Callable[[], Awaitable[None]]
"""Raises ``InstallationError`` if money may leave an account of the cell after all: call it just before the cell is closed."""


@asynccontextmanager
async def holding_accounts(move: CellMove, known: KnownCell, source: Connection) -> AsyncGenerator[CheckHold]:
    """Let no money leave any account of a cell while the block closes it; if that fails it may leave again."""
    hold = await hold_store.hold_all(source)

    async def check() -> None:
        # An account was added, or whoever moves the cell was stopped for so long that others took it for dead.
        if not await hold_store.is_held_for_all(source, hold):
            raise InstallationError("money may leave an account of the cell again: run this once more")

    try:
        if hold is not None:
            await _wait_until_quiet(move, source, hold)
        yield check
    except BaseException:
        if hold is not None:
            await until_done(_let_send(move, known, hold))
        raise


async def _let_send(move: CellMove, known: KnownCell, hold: Hold) -> None:
    """End this hold, and not that of somebody else who moves the cell by now."""
    try:
        async with move.connect(known.address) as source:
            await hold_store.let_send(source, hold)
    # Closed it cannot be reached, and whoever gives it its name back does the same.
    except DATABASE_FAILED:
        move.say("no money leaves the cell's accounts for up to five minutes, or until this is run again")


async def _wait_until_quiet(move: CellMove, source: Connection, hold: Hold) -> None:
    """Wait until no call is under way that began before."""
    now_s = move.context.clock.monotonic_s
    began_at_s = said_at_s = now_s()
    number: str | None = None

    async def is_quiet() -> bool:
        nonlocal number
        # Who had looked at the account before, then who is about to write that it calls.
        if number is None:
            if not await hold_store.is_seen_by_all(source, hold):
                return False
            number = await hold_store.take_number(source)
        return await hold_store.are_over(source, number) and not await step_store.count_calling(source)

    while not await is_quiet():
        if now_s() > began_at_s + move.bounds.calls_max_s:
            # What still says so was called by a process that died: it is asked about, as ever.
            move.say("no call at an institution can be under way any more; those without an answer are asked about")
            return
        if now_s() > said_at_s + move.bounds.silent_max_s:
            said_at_s = now_s()
            left = await step_store.count_calling(source)
            move.say(f"waiting for answers of institutions to what was sent before, of {left} orders")
        await asyncio.sleep(_LOOK_EVERY_S)
