"""The two ends of a move that are not its own: it is taken back, or the target is opened although the source is lost."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing, cell_copy, cell_ids
from pixconnect.store.running import database_loss as loss_store
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running import partition as partition_store
from pixconnect.usecases.running import known_cells
from pixconnect.usecases.running.cell_moved import find_opened, moved_on, was_ready
from pixconnect.usecases.running.cell_mover import (
    BESIDE,
    CellMove,
    end_copy,
    record_row,
    reopen_source,
    writing_row,
)
from pixconnect.usecases.running.installation import InstallationError


async def cancel_move(move: CellMove, name: str) -> KnownCell:
    """Take a move back: the cell is open where it was, and nothing is kept there for the copy, which nobody needs any more.

    Raises:
        InstallationError: It is not being moved; or its database does not answer.
    """
    async with known_cells.adding_alone(move.context) as home:
        known = await _read_moving(move, name)
        try:
            opened = await find_opened(move, known)
            if opened == "TARGET":
                raise InstallationError(
                    f"the cell {name} is at {known.other_address} already, and the home cell was put back to when it was being "
                    f"moved: run `pixconnect cell move {name} --to {known.other_address}`, which lets it know"
                )
            if opened in {"UNKNOWN", "BOTH"}:
                await _let_loss_be_counted(move, known)
                move.say(
                    f"the cell may have been opened at {known.other_address} before the home cell was put back: whoever serves "
                    "it next counts a loss, and what may be missing here is in that database"
                )
            was_closed = await reopen_source(move, known)
            async with move.connect(known.address) as source:
                # Whoever takes it back again finds it open, and what it may lack noted or counted.
                may_lack = await installation_store.was_elsewhere(source) or await loss_store.has_forgotten(
                    source, known.copy_name
                )
                # Of a closed cell it was seen just now.
                await _unsubscribe(move, known, may_lack=may_lack, asks=opened != "SOURCE" or not was_closed)
                await cell_copy.drop_slots(source, known.copy_name)
                await cell_copy.unpublish(source, known.copy_name)
                former = await cell_closing.find_slot_database(source, known.copy_name)
            if former is not None:
                # A dump was restored in the place of the one that was being copied.
                async with move.connect(known.address, former) as source:
                    await cell_copy.drop_slots(source, known.copy_name)
        except DATABASE_AWAY as error:
            raise InstallationError(
                f"the cell's database does not answer ({str(error) or type(error).__name__}), so the move is not taken back"
            ) from error
        async with writing_row(move, home) as connection:
            return await record_row(
                move, connection, known, await cell_store.end_move(connection, known, known.address)
            )


async def _let_loss_be_counted(move: CellMove, known: KnownCell) -> None:
    async with move.connect(known.address, BESIDE) as beside:
        is_open = await cell_closing.has_database(beside, known.database)
    async with move.connect(known.address, known.database if is_open else known.closed_database) as source:
        await installation_store.note_elsewhere(source)
        # Only who connects looks at that.
        await cell_closing.end_other_sessions(source)


async def _read_moving(move: CellMove, name: str) -> KnownCell:
    known = await known_cells.read_known_cell(move.context, name)
    if known.state != "MOVING":
        raise InstallationError(f"nobody moves the cell {name}: it is {known.state} at {known.address}")
    return known


async def _unsubscribe(move: CellMove, known: KnownCell, *, may_lack: bool, asks: bool) -> None:
    """Let the target ask for nothing any more.

    Args:
        may_lack: Whether the cell is known to lack something, which the target may have.
        asks: Whether the target is to be asked too.
    """
    address = errors.require(known.other_address, "it is being moved")
    try:
        async with move.connect(address) as target:
            claim = await cell_store.find_claim(target)
            if claim is not None and not claim.is_of(known):
                move.say(f"the database at {address} is another cell's by now, and is left as it is")
                return
            name = await cell_copy.find_subscription(target)
            if name is not None:
                await cell_copy.unsubscribe(target, name)
            is_ready = await was_ready(target, known)
            is_kept = may_lack or (asks and is_ready)
            if is_kept and is_ready:
                await cell_closing.keep_services_out(target)
        move.say(
            f"the database at {address} may have been served, and have what is missing here: compare the two before you drop it"
            if is_kept
            else f"the database at {address} holds a copy that is out of date now: drop it"
        )
    except asyncpg.InvalidCatalogNameError:
        move.say(f"there is no database at {address} any more, so nothing is left there")
    except DATABASE_AWAY:
        end = "`alter subscription … disable`, `alter subscription … set (slot_name = none)` and `drop subscription …`"
        move.say(
            f"the database at {address} DOES NOT ANSWER, and its subscription {known.copy_name} is left there: once its server "
            f"is back, before anything else, run there {end}; until then it asks the cell's server for ever for a slot that "
            "there is no more. It may have been served: compare the two before you drop it"
        )


async def take_over(move: CellMove, name: str) -> KnownCell:
    """Open the target of a cell whose server is lost for ever, and fenced: what has not arrived is forgotten.

    Whoever meets it counts a loss: orders that were open are asked about. Nothing is forgotten where the move has ended, of
    which a home cell that was put back does not know.

    Raises:
        InstallationError: It is not being moved; its server answers; or the copy was never whole.
    """
    async with known_cells.adding_alone(move.context) as home:
        known = await _read_moving(move, name)
        if await _answers(move, known):
            raise InstallationError(
                f"the server of the cell {name} answers: move it without --take-over, or fence that server first"
            )
        address = errors.require(known.other_address, "it is being moved")
        async with _connected_to_copy(move, known, address) as target:
            last_move = await installation_store.find_last_move(target)
            if known.is_older_than(last_move):
                raise moved_on(known)
            if last_move != known.copy_name:
                await _end_without_source(target, known)
            await cell_ids.skip_ids(target, [*move.schemas])
            for parent in partition_store.PARENTS:
                await partition_store.make(target, parent)
            # That it counts a loss pauses them; whoever held them for the move does not any more.
            await hold_store.let_send(target)
            await cell_closing.let_services_in(target)
        async with writing_row(move, home) as connection:
            opened = await record_row(move, connection, known, await cell_store.end_move(connection, known, address))
        await end_copy(move, opened)
        return opened


@asynccontextmanager
async def _connected_to_copy(move: CellMove, known: KnownCell, address: str) -> AsyncGenerator[asyncpg.Connection]:
    try:
        async with move.connect(address) as target:
            yield target
    except asyncpg.InvalidCatalogNameError as error:
        raise InstallationError(
            f"there is no copy that could be opened ({error}): if the home cell was put back and the cell has moved on since, "
            f"find its database, and let the home cell know by `pixconnect cell set {known.name} --database-url URL --fenced`"
        ) from None


async def _end_without_source(target: Connection, known: KnownCell) -> None:
    if not await cell_copy.is_all_copied(target, known.copy_name):
        raise InstallationError("the copy is not whole: not all tables have arrived, so it cannot be the cell")
    await known_cells.refuse_other_cell(target, known)
    # Should that server come back, it has nothing to say any more.
    await cell_copy.pause(target, known.copy_name)
    # Its server may be noted as the cell's already, by a move that failed at its last step.
    await installation_store.note_elsewhere(target)


async def _answers(move: CellMove, known: KnownCell) -> bool:
    return any([await _answers_at(move, address) for address in known.list_servers()])


async def _answers_at(move: CellMove, address: str) -> bool:
    try:
        async with move.connect(address, "postgres"):
            return True
    # Its certificate is not as it must be, which only an answer shows.
    except ssl.SSLError:
        return True
    except (OSError, asyncpg.PostgresConnectionError):
        return False
    # It refuses the login, is starting, or has no such database.
    except asyncpg.PostgresError:
        return True
