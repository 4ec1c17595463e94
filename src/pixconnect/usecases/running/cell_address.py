"""A cell's database is at another address: restored elsewhere, or its server is called otherwise. Nothing is copied."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import asyncpg

from pixconnect.domain.running.database_server import DatabaseServer
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import writing
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running import known_cells
from pixconnect.usecases.running.installation import InstallationError

Connect = Callable[[str], AbstractAsyncContextManager[asyncpg.Connection]]
"""Connects as an operator to the database at the address of a cell."""


async def find_to_set(context: OperatorContext, name: str, address: str) -> KnownCell:
    """The cell whose address is to be another one; raises as ``set_address``."""
    known = await known_cells.read_known_cell(context, name)
    if known.state != "OPEN":
        raise InstallationError(
            f"the cell {name} is {known.state}: `cell add` or `cell move` has to come to its end first"
        )
    for each in await cell_store.list_all(context.pool):
        if each.number != known.number and address in {each.address, each.other_address}:
            raise InstallationError(f"the database at {address} is that of the cell {each.name}")
    return known


async def set_address(
    context: OperatorContext, home: Connection, connect: Connect, known: KnownCell, address: str, *, is_fenced: bool
) -> KnownCell:
    """Let a cell be at another address, at which its own database is.

    Args:
        home: The connection that has the lock of ``adding_alone``.
        is_fenced: Whether the operator says that the former server cannot come back, so that nobody has to ask it.

    Raises:
        InstallationError: The database at its former address answers, and is another one: there would be two of this cell.
    """
    async with connect(address) as connection:
        await known_cells.refuse_other_cell(connection, known)
        if not is_fenced:
            await _refuse_two(connect, known, await installation_store.read_server(connection))
    async with writing(context.pool) as write, write.begin_on(home) as connection:
        after = await cell_store.set_address(connection, known, address)
        if after is None:
            raise InstallationError(f"somebody else has changed the cell {known.name} meanwhile: look at `cell list`")
        await audit.record(context, connection, "cell set", f"cell {known.name}", before=known, after=after)
    return after


async def _refuse_two(connect: Connect, known: KnownCell, there: DatabaseServer) -> None:
    try:
        async with connect(known.address) as connection:
            here = await installation_store.read_server(connection)
    # Nobody listens there, or it was dropped or renamed.
    except (ConnectionRefusedError, FileNotFoundError, asyncpg.InvalidCatalogNameError):
        return
    except (OSError, asyncpg.PostgresError) as error:
        raise InstallationError(
            f"nobody knows whether its former server still serves at {known.address} ({str(error) or type(error).__name__}): "
            "services may reach it; keep it from that for ever, and run this again with --fenced"
        ) from None
    # One server by two names has been started at one instant; a copy of it, whatever that says of itself, at another.
    if (here.identity, here.started_at) != (there.identity, there.started_at):
        raise InstallationError(
            f"its database at {known.address} answers, and is another one: stop or rename that first, or there would be two of "
            f"the cell {known.name}"
        )
