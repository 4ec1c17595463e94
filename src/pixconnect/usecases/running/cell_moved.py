"""Whether the move of a cell has ended, of which a home cell that was put back to before that does not know.

The end is noted at the target (``installation.came_by``) before anything that is left of the move is taken away.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import CellAddress, KnownCell
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing, cell_copy, cell_ids
from pixconnect.store.running import database_loss as loss_store
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running.cell_mover import BESIDE, CellMove, record_row, writing_row
from pixconnect.usecases.running.installation import InstallationError

Opened = Literal["SOURCE", "TARGET", "UNKNOWN"]


class SilentEndError(InstallationError):
    """One of the two databases gives no answer, and may be the cell."""


async def let_know(move: CellMove, home: Connection, known: KnownCell) -> KnownCell:
    """The row as it is to be where the home cell was put back, and does not know any more that the move has ended."""
    address = errors.require(known.other_address, "it is being moved")
    try:
        opened = await find_opened(move, known)
    except DATABASE_AWAY as error:
        raise silent_source(known, error) from error
    match opened:
        case "SOURCE":
            return known
        case "TARGET":
            move.say(f"the cell is at {address} already: the home cell was put back to when it was being moved")
            async with writing_row(move, home) as connection:
                return await record_row(move, connection, known, await cell_store.end_move(connection, known, address))
        case "UNKNOWN":
            raise SilentEndError(
                f"the cell {known.name} is closed, and the database at {address} does not answer, in which it may have been "
                "opened, of which the home cell knows nothing: run this again when it does; if it never will, `pixconnect cell "
                f"move {known.name} --cancel` opens the cell where it was, and a loss is counted"
            )


def silent_source(known: KnownCell, error: Exception) -> SilentEndError:
    return SilentEndError(
        f"the cell's database does not answer ({str(error) or type(error).__name__}), and the copy does not open by "
        "itself: run this again when it does; if it never will, fence it and run "
        f"`pixconnect cell move {known.name} --take-over`"
    )


def may_be_closed(known: KnownCell) -> str:
    again = f"pixconnect cell move {known.name} --to {known.other_address}"
    return f"the cell {known.name} may be closed until `{again}` runs again"


def moved_on(known: KnownCell) -> InstallationError:
    return InstallationError(
        f"the home cell was put back to when the cell {known.name} was being moved from {known.address} to "
        f"{known.other_address}, and it has moved on since: find the database in which it is, and let the home cell know by "
        f"`pixconnect cell set {known.name} --database-url URL`; open none that a move has closed"
    )


async def find_opened(move: CellMove, known: KnownCell) -> Opened:
    """Where a cell is whose row says ``MOVING``: the home cell may have been put back to before the end of its move.

    Raises:
        InstallationError: Both are open; or it has moved on since.
        OSError, asyncpg.PostgresError: The source does not answer, and the target says of no move that it has ended.
    """
    address = errors.require(known.other_address, "it is being moved")
    last, is_silent = None, False
    try:
        async with move.connect(address) as target:
            last = await installation_store.find_last_move(target)
    except DATABASE_AWAY:
        is_silent = True
    has_moved = last == known.copy_name
    if known.is_older_than(last):
        raise moved_on(known)
    try:
        async with move.connect(known.address, BESIDE) as beside:
            is_open = await cell_closing.has_database(beside, known.database)
            is_closed = await cell_closing.has_database(beside, known.closed_database)
    except DATABASE_AWAY:
        if not has_moved:
            raise
        # Its row leads nobody there any more.
        return "TARGET"
    if has_moved and is_open:
        raise InstallationError(
            f"the cell {known.name} has moved to {address}, and its former database is open again at {known.address}: compare "
            "the two, rename the one that it is not, and run this again"
        )
    if has_moved:
        return "TARGET"
    if await _has_moved_on(move, known, is_open=is_open, is_closed=is_closed):
        raise moved_on(known)
    # Beside one that somebody has made: whoever gives the closed one its name back says so.
    if is_open:
        return "SOURCE"
    return "UNKNOWN" if is_silent else await _find_served(move, known)


async def _has_moved_on(move: CellMove, known: KnownCell, *, is_open: bool, is_closed: bool) -> bool:
    """Whether what is left at the source shows that the cell has moved again after this move."""
    if is_open != is_closed:
        return is_closed and await _is_closed_there(move, known)
    if not is_open:
        return True
    async with move.connect(known.address) as source:
        return known.is_older_than(await installation_store.find_last_move(source))


async def _find_served(move: CellMove, known: KnownCell) -> Opened:
    """Whether the target was served: who died before the end was noted has left nothing else.

    Whoever writes there gives out ids, and workers note each minute.
    """
    address = errors.require(known.other_address, "it is being moved")
    async with move.connect(known.address, known.closed_database) as source:
        # What it has forgotten the copy may have, which was not opened then: such a source is never closed.
        if await loss_store.has_forgotten(source, known.copy_name):
            return "SOURCE"
        try:
            async with move.connect(address) as target:
                there = await installation_store.read_server(target)
                # A copy says so of its source's server; and one that was to be taken over has left ids out.
                if not await installation_store.has_come(target, there) or await installation_store.was_elsewhere(
                    target
                ):
                    return "SOURCE"
                if await _is_ahead(move, source, target):
                    return "TARGET"
                # Processes that had seen the row of before may serve it still.
                await asyncio.sleep(move.bounds.seen_within_s)
                return "TARGET" if await _is_ahead(move, source, target) else "SOURCE"
        except DATABASE_AWAY:
            return "UNKNOWN"


async def _is_ahead(move: CellMove, source: Connection, target: Connection) -> bool:
    there, here = [(await installation_store.read_server(each)).notes_count for each in (target, source)]
    return there > here or await cell_ids.has_given_more(source, target, [*move.schemas])


async def _is_closed_there(move: CellMove, known: KnownCell) -> bool:
    """Whether this move has ended, for its slot is gone, and a later one has closed the database at the target, or this one."""
    address = errors.require(known.other_address, "it is being moved")
    async with move.connect(known.address, known.closed_database) as source:
        if await cell_copy.find_slot(source, known.copy_name) is not None:
            return False
        # Two that were begun in one second close a database by one name.
        if not await cell_copy.is_published(source, known.copy_name):
            return True
    try:
        async with move.connect(address, BESIDE) as beside:
            return await cell_closing.has_closed(beside, CellAddress(address=address))
    except DATABASE_AWAY:
        return False
