"""A move waits for the home cell, and for its two databases, where one of them is lost: the cell may be closed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.usecases.frame.cells import NO_ANSWER
from pixconnect.usecases.running.cell_moved import SilentEndError
from pixconnect.usecases.running.cell_mover import CellMove
from pixconnect.usecases.running.installation import InstallationError
from pixconnect.usecases.running.known_cells import CellsLockedError

_AGAIN_AFTER_S: Final = 0.5
_LOST: Final = "the home cell, or one of the two databases, was lost in the middle of it"
_HOME_AWAY: Final = (*NO_ANSWER, errors.OutcomeUnknown, CellsLockedError)
"""What a home cell that was lost raises, also while its dead session still has the lock."""


async def try_while_silent(move: CellMove, attempt: Callable[[], Awaitable[KnownCell]]) -> KnownCell:
    """What an attempt at a move has led to, which is made again while somebody is silent who was lost in the middle of one.

    Raises:
        InstallationError: As the attempt does; or whoever is silent was waited for in vain, ``home_max_s`` for each loss.
    """
    until_s: float | None = None
    while True:
        try:
            return await attempt()
        except (*_HOME_AWAY, SilentEndError) as error:
            _refuse_stopped()
            now_s = move.context.clock.monotonic_s()
            is_silent = isinstance(error, SilentEndError)
            if isinstance(error, errors.OutcomeUnknown) or (is_silent and until_s is None):
                until_s = now_s + move.bounds.home_max_s
                move.say(f"{error if is_silent else _LOST}: it is waited for")
            # Who has not begun yet waits for nobody.
            elif until_s is None:
                raise
            elif now_s > until_s:
                why = str(error) or type(error).__name__
                raise InstallationError(f"that was in vain, run this again: {why}") from error
        await asyncio.sleep(_AGAIN_AFTER_S)


def _refuse_stopped() -> None:
    """Raise ``CancelledError`` where the loss of the home cell has taken the place of one: who is stopped waits for nobody."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
