"""The steps of ``pixconnect cell add``; ``usecases/running/known_cells.py`` says what each of them may leave behind."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

import asyncpg
from msgspec import structs

from pixconnect.assembly.cell_settings import settings_of
from pixconnect.cli.frame import failures, live_mode
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import migrate
from pixconnect.config import Settings, SettingsError
from pixconnect.domain.running.known_cell import CellAddress, KnownCell, in_other_database
from pixconnect.foundation import pool, privileges
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.migrations import SchemaError
from pixconnect.store.running import cell_closing
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running.cell_closing import ClosedDatabase
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running import cell_address, cell_check, known_cells
from pixconnect.usecases.running.cell_mover import BESIDE

_SCHEMA: Final = migrate.SCHEMAS[0][0]
_NAME: Final = "pixconnect cell"


async def add_cell(context: OperatorContext, settings: Settings, name: str, address: str) -> KnownCell:
    """Make a cell of the database at an address, or go on where somebody was kept from the end.

    Raises:
        CommandError: The cell is not what it should be, in the end; whoever mends that runs this again.
        InstallationError: That database cannot become this cell; nothing was written there.
    """
    async with known_cells.adding_alone(context):
        known = await known_cells.refuse_taken(context, name, address)
        if known is not None and known.is_open:
            return known
        reached = settings_of(settings, CellAddress(address=address))
        _refuse_unsafe(reached)
        # A row that begins elsewhere has another identity then: what this database may say is of no use any more.
        began_there = known if known is not None and known.address == address else None
        async with context.pool.acquire() as home:
            home_database = await installation_store.read_database(home)
        async with _connected_as_owner(reached) as connection:
            ours = [schema for schema, _, _ in migrate.SCHEMAS]
            await known_cells.refuse_unfit(connection, home_database, began_there, ours)
            await cell_closing.let_services_in(connection)
        known = await known_cells.begin_cell(context, name, address)
        await migrate.bring_up_to_date(reached, cell=known)
        findings = await look_for_faults(context, settings, known)
        if findings:
            raise CommandError(f"the cell {name} is not open yet: {findings[0]}; then run this again")
        return await known_cells.open_cell(context, known)


async def set_address(
    context: OperatorContext, settings: Settings, name: str, address: str, *, is_fenced: bool
) -> KnownCell:
    """Let a cell be at another address, at which its own database is; raises as ``add_cell``."""
    async with known_cells.adding_alone(context) as home:
        known = await cell_address.find_to_set(context, name, address)
        await _let_services_in(settings_of(settings, CellAddress(address=address)))
        if known.address == address and known.state == "OPEN":
            if findings := await look_for_faults(context, settings, known):
                raise CommandError(f"the cell {name} is not as it must be there: {findings[0]}")
            return known
        there = structs.replace(known, state="OPEN", address=address, other_address=None, moving_since=None)
        reached = settings_of(settings, there)
        _refuse_unsafe(reached)

        def connect(where: str) -> AbstractAsyncContextManager[asyncpg.Connection]:
            return connected_as_operator(settings_of(settings, CellAddress(address=where)))

        try:
            await cell_address.refuse_copied(connect, known, address)
        except asyncpg.InvalidCatalogNameError:
            if address == known.address and (closed := cell_check.say_closed(known)):
                raise CommandError(closed) from None
        # What cannot be reached is explained with whatever else is wrong there.
        except DATABASE_FAILED:
            pass
        if await _is_of_before_an_upgrade(reached):
            async with connect(address) as connection:
                await cell_address.is_the_same(connect, known, connection, is_fenced=is_fenced)
            # No verb but this one would: `migrate` goes to where the cell was.
            await migrate.bring_up_to_date(reached, cell=there)
        if findings := await look_for_faults(context, settings, there):
            raise CommandError(f"that is not the cell {name}: {findings[0]}; its address was not changed")
        return await cell_address.set_address(context, home, connect, known, address, is_fenced=is_fenced)


async def _let_services_in(reached: Settings) -> None:
    """Let services log in where a move has kept them out, by which they served what was no cell."""
    # What else is wrong there is found out by whoever looks for it.
    with suppress(CommandError, *DATABASE_FAILED):
        async with _connected_as_owner(reached) as connection:
            await cell_closing.let_services_in(connection)


async def _is_of_before_an_upgrade(reached: Settings) -> bool:
    """Whether all that is wrong with a restored cell may be that its tables are older; ``look_for_faults`` names the rest."""
    try:
        async with connected_as_operator(reached) as connection:
            look = await cell_check.look_at_cell(connection)
            return (
                look.claim is not None and not look.is_standby and await cell_check.count_missing_steps(connection) > 0
            )
    except (*DATABASE_FAILED, SchemaError):
        return False


def _refuse_unsafe(reached: Settings) -> None:
    try:
        live_mode.refuse_unsafe_database(reached)
    except SettingsError as error:
        raise CommandError(f"--database-url, for the login of {error}") from None


@asynccontextmanager
async def _connected_as_owner(reached: Settings) -> AsyncGenerator[asyncpg.Connection]:
    _, connection = await migrate.connect_as_owner(reached)
    try:
        await connection.execute(f"set search_path = {_SCHEMA}")
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def connected_as_operator(reached: Settings) -> AsyncGenerator[asyncpg.Connection]:
    """A connection to a cell's database as operators' verbs have it."""
    role = privileges.OPERATOR_ROLE
    connection = await pool.connect(reached.operators_url, role=role, schema=_SCHEMA, name=_NAME)
    try:
        yield connection
    finally:
        await connection.close()


async def look_for_faults(context: OperatorContext, settings: Settings, known: KnownCell | None) -> list[str]:
    """What is wrong with a cell, or with the home cell (``None``): of what cannot be reached that it cannot."""
    reached = settings if known is None else settings_of(settings, known)
    found = [] if known is None else [line async for line in cell_check.judge_move(context, known)]
    try:
        async with connected_as_operator(reached) as connection:
            found += [line async for line in cell_check.judge_cell(context, connection, known, settings.mode)]
        # Operators may log in otherwise than the service, and its login belongs to the server.
        role = privileges.SERVICE_ROLE
        await (await pool.connect(reached.database_url, role=role, schema=_SCHEMA, name=_NAME)).close()
    except Exception as error:
        line = failures.explain(error) if known is None else failures.explain(error, failures.CELL_ADDRESS)
        if known is not None and isinstance(error, asyncpg.InvalidCatalogNameError):
            line = await _say_missing(reached, known)
        # A defect of ours keeps its traceback.
        if line is None:
            raise
        return [*found, line]
    return found


async def _say_missing(reached: Settings, known: KnownCell) -> str:
    if (line := cell_check.say_closed(known)) is not None:
        return line
    closed: list[ClosedDatabase] = []
    # Who may not look there names none.
    with suppress(*DATABASE_FAILED):
        beside = in_other_database(reached.operators_url, BESIDE)
        connection = await pool.connect(beside, role=None, schema=_SCHEMA, name=_NAME)
        try:
            closed = await cell_closing.list_closed(connection, known)
        finally:
            await connection.close()
    return cell_check.say_missing(known, closed)
