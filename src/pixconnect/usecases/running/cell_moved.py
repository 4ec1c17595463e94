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

Opened = Literal["SOURCE", "TARGET", "BOTH", "UNKNOWN"]


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
            async with move.connect(address) as target:
                await cell_closing.let_services_in(target)
            async with writing_row(move, home) as connection:
                return await record_row(move, connection, known, await cell_store.end_move(connection, known, address))
        case "BOTH":
            raise InstallationError(
                f"the cell {known.name} is open at {known.address}, and {address} has given out ids that are not there, so it "
                "may have been served: stop all services, and compare the two. If the cell is to stay where it is, run "
                f"`pixconnect cell move {known.name} --cancel`, which counts a loss; if it is to be at {address}, rename "
                f"{known.database} to {known.closed_database}, and run this again"
            )
        case "UNKNOWN":
            raise SilentEndError(
                f"the cell {known.name} is closed, and the database at {address}, in which it may have been opened without "
                "the home cell knowing it, does not answer or has no tables of ours any more: run this again when it is back; "
                f"if it never will be, `pixconnect cell move {known.name} --cancel` opens the cell where it was, and a loss is "
                "counted"
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
    if is_silent:
        return "SOURCE" if is_open else "UNKNOWN"
    # Beside one that somebody has made: whoever gives the closed one its name back says so.
    return "SOURCE" if is_open and is_closed else await _find_served(move, known, is_open=is_open)


async def _has_moved_on(move: CellMove, known: KnownCell, *, is_open: bool, is_closed: bool) -> bool:
    """Whether what is left at the source shows that the cell has moved again after this move."""
    if is_open != is_closed:
        return is_closed and await _is_closed_there(move, known)
    if not is_open:
        return True
    async with move.connect(known.address) as source:
        return known.is_older_than(await installation_store.find_last_move(source))


async def _find_served(move: CellMove, known: KnownCell, *, is_open: bool) -> Opened:
    """Where the cell is by the ids that both have given out: who died before the end was noted has left nothing else."""
    address = errors.require(known.other_address, "it is being moved")
    database = known.database if is_open else known.closed_database
    async with move.connect(known.address, database) as source:
        # What it has forgotten the copy may have, which was not opened then: such a source is never closed.
        if await loss_store.has_forgotten(source, known.copy_name):
            return "SOURCE"
    for is_last in [False] if is_open else [False, True]:
        try:
            async with move.connect(address) as target:
                # Somebody may have made it anew, and a log is not to have errors of who looks.
                has_tables = await installation_store.notes_moves(target)
                there = await _read_served(move, known, target, is_last=is_last) if has_tables else None
        except DATABASE_AWAY:
            has_tables, there = False, None
        if not has_tables:
            return "SOURCE" if is_open else "UNKNOWN"
        if there is None:
            return "SOURCE"
        async with move.connect(known.address, database) as source:
            here = await _read_given(move, source)
        if any(count > here.get(name, count) for name, count in there.items()):
            return "BOTH" if is_open else "TARGET"
    return "SOURCE"


async def was_ready(target: Connection, known: KnownCell) -> bool:
    """Whether all was done there for the target to be served: if it was, of which nobody knows, this is all that is left."""
    return await installation_store.notes_moves(target) and await _has_come(target, known)


async def _has_come(target: Connection, known: KnownCell) -> bool:
    there = await installation_store.read_server(target)
    claim = await cell_store.find_claim(target)
    # Another cell may have been moved there since.
    return claim is not None and claim.is_of(known) and await installation_store.has_come(target, there)


async def _read_served(move: CellMove, known: KnownCell, target: Connection, *, is_last: bool) -> dict[str, int] | None:
    """What the target has given out; ``None`` where nobody has served it.

    Args:
        is_last: Let it give out nothing after that: processes that have seen the row of before may serve it still.
    """
    # A copy says so of its source's server; and one that was to be taken over has left ids out.
    if not await _has_come(target, known) or await installation_store.was_elsewhere(target):
        return None
    if is_last:
        move.say("the cell is closed while it is seen whether the target was served")
        await cell_closing.keep_services_out(target)
        # A superuser's are not kept out.
        await asyncio.sleep(move.bounds.seen_within_s)
        if not await cell_closing.end_other_sessions(target):
            raise TimeoutError("a session at the target does not end")
    return await _read_given(move, target)


async def _read_given(move: CellMove, connection: Connection) -> dict[str, int]:
    """How much a database has given out: whoever writes there takes ids, and workers note each minute."""
    notes_count = (await installation_store.read_server(connection)).notes_count
    return {"notes": notes_count, **await cell_ids.read_given(connection, [*move.schemas])}


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
