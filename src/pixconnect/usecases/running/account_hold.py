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
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import asyncpg

from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import rail_step as step_store
from pixconnect.usecases.running.cell_mover import CellMove, until_done

_LOOK_EVERY_S: Final = 0.2


@asynccontextmanager
async def holding_accounts(move: CellMove, known: KnownCell, source: Connection) -> AsyncGenerator[None]:
    """Let no money leave any account of a cell while the block closes it; if that fails it may leave again."""
    try:
        await _hold(move, source)
        yield
    except BaseException:
        # Closed it cannot be reached, and whoever gives it its name back does the same.
        with suppress(OSError, asyncpg.PostgresError):
            await until_done(_let_send(move, known))
        raise


async def _let_send(move: CellMove, known: KnownCell) -> None:
    async with move.connect(known.address) as source:
        await account_store.let_send(source)


async def _hold(move: CellMove, source: Connection) -> None:
    """Hold all accounts, and wait until no call is under way that began before."""
    transaction = await account_store.hold_all(source)
    if transaction is None:
        return
    now_s = move.context.clock.monotonic_s
    began_at_s = said_at_s = now_s()
    while not await account_store.is_held_for_all(source, transaction) or await step_store.count_calling(source):
        if now_s() > began_at_s + move.bounds.calls_max_s:
            # What still says so was called by a process that died: it is asked about, as ever.
            move.say("no call at an institution can be under way any more; those without an answer are asked about")
            return
        if now_s() > said_at_s + move.bounds.silent_max_s:
            said_at_s = now_s()
            left = await step_store.count_calling(source)
            move.say(f"waiting for answers of institutions to what was sent before, of {left} orders")
        await asyncio.sleep(_LOOK_EVERY_S)
