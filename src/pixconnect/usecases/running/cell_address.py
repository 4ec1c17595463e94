"""A cell's database is at another address: restored elsewhere, or its server is called otherwise. Nothing is copied.

The home cell may have been put back to when the cell was being moved, and the cell have moved on since: then it may be at any
address, and the row says ``MOVING`` of a move that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

import asyncpg

from pixconnect.domain.running.known_cell import CellAddress, KnownCell
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_copy
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running.heartbeat import find_heartbeat, make_heartbeat
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import writing
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running import known_cells
from pixconnect.usecases.running.installation import InstallationError

_FOLLOWS_WITHIN_S: Final = 3.0
_LOOK_EVERY_S: Final = 0.05

Connect = Callable[[str], AbstractAsyncContextManager[asyncpg.Connection]]
"""Connects as an operator to the database at the address of a cell."""


async def find_to_set(context: OperatorContext, name: str, address: str) -> KnownCell:
    """The cell whose address is to be another one; raises as ``set_address``."""
    known = await known_cells.read_known_cell(context, name)
    if not known.is_open:
        raise InstallationError(f"the cell {name} is {known.state}: `cell add` has to come to its end first")
    database = CellAddress(address=address).database
    if any(database.startswith(CellAddress(address=place).closed_prefix) for place in _list_places(known)):
        raise InstallationError(
            f"a move has closed the database {database}, for the cell went on elsewhere: if it is to be the cell again, give "
            "it its name back first"
        )
    for each in await cell_store.list_all(context.pool):
        if each.number != known.number and address in {each.address, each.other_address}:
            raise InstallationError(f"the database at {address} is that of the cell {each.name}")
    return known


async def set_address(
    context: OperatorContext, home: Connection, connect: Connect, known: KnownCell, address: str, *, is_fenced: bool
) -> KnownCell:
    """Let a cell be at another address, at which its own database is.

    Unless that is the very database that answers at the former address too, whoever serves it next counts a loss: the cell may
    have gone on elsewhere, also where a database is put back that it had before.

    Args:
        home: The connection that has the lock of ``adding_alone``.
        is_fenced: Whether the operator says that a former server which gives no answer cannot come back.

    Raises:
        InstallationError: There would be two of this cell: its former database answers, or may do so again.
    """
    async with connect(address) as connection:
        is_same = await is_the_same(connect, known, connection, is_fenced=is_fenced)
        server = await installation_store.read_server(connection)
        # What the cell has not come to may be a copy that lacks something.
        if not is_same or (known.state == "MOVING" and not await installation_store.has_come(connection, server)):
            # Before anybody can find it there: who dies in between leaves a database that nobody serves.
            await installation_store.note_elsewhere(connection)
    async with writing(context.pool) as write, write.begin_on(home) as connection:
        after = await cell_store.set_address(connection, known, address)
        if after is None:
            raise InstallationError(f"somebody else has changed the cell {known.name} meanwhile: look at `cell list`")
        await audit.record(context, connection, "cell set", f"cell {known.name}", before=known, after=after)
    return after


async def is_the_same(connect: Connect, known: KnownCell, there: Connection, *, is_fenced: bool) -> bool:
    """Whether the database at the former address is known to be the one that is ``there``; raises as ``set_address``."""
    await known_cells.refuse_other_cell(there, known)
    server = await installation_store.read_server(there)
    is_same, silence = False, ""
    for address in [server for place in _list_places(known) for server in CellAddress(address=place).list_servers()]:
        try:
            async with connect(address) as connection:
                here = await installation_store.read_server(connection)
                only_reads = await connection.fetchval("select pg_is_in_recovery()")
                follows = only_reads and here.place == server.place and await _follows(connection, there)
        except asyncpg.InvalidCatalogNameError:
            # Dropped or renamed, so nobody is connected to it any more.
            continue
        # One that refuses connections may only be about to start again.
        except (OSError, asyncpg.PostgresError) as error:
            silence = silence or f"{address} ({str(error) or type(error).__name__})"
            continue
        # One server by two names has been started at one instant; a copy of it, whatever that says of itself, at another.
        if (here.identity, here.started_at) == (server.identity, server.started_at):
            is_same = True
        # A standby of that server commits nothing, and may say an older timeline.
        elif not follows:
            kind = "a standby of another server, which may be promoted" if only_reads else "another one"
            raise InstallationError(
                f"its database at {address} answers, and is {kind}: stop or rename that first, or there would be two of "
                f"the cell {known.name}"
            )
    if silence and not is_fenced:
        raise InstallationError(
            f"nobody knows whether its former server still serves at {silence}, or will again: services may reach it; keep it "
            "from that for ever, and run this again with --fenced"
        )
    # Where one of several was silent the cell may have been there last.
    return is_same and not silence


def _list_places(known: KnownCell) -> list[str]:
    """Where it may be, as far as the home cell knows."""
    return [known.address, *([known.other_address] if known.other_address else [])]


async def refuse_copied(connect: Connect, known: KnownCell, address: str) -> None:
    """Raise ``InstallationError`` where a move is under way at a database: only that knows which of two is the cell."""
    if known.state != "MOVING":
        return
    async with connect(address) as there:
        is_copied = await cell_copy.find_subscription(there) or await cell_copy.find_slot(there, known.copy_name)
    if is_copied:
        raise InstallationError(
            f"the cell {known.name} is being moved: run `pixconnect cell move {known.name} --to {known.other_address}` or "
            f"`pixconnect cell move {known.name} --cancel` to its end first"
        )


async def _follows(standby: Connection, primary: Connection) -> bool:
    """Whether what is noted at the one arrives at the other: one that followed a server of before says the same of itself."""
    with suppress(TimeoutError, asyncpg.PostgresError):
        async with asyncio.timeout(_FOLLOWS_WITHIN_S):
            # Services may note a later beat meanwhile.
            while True:
                noted = (await make_heartbeat(primary)).beat_at
                seen = await find_heartbeat(standby)
                if seen is not None and seen.beat_at == noted:
                    return True
                await asyncio.sleep(_LOOK_EVERY_S)
    return False
