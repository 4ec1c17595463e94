"""What moving cells needs, and what the other ends of a move share with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

import asyncpg
from msgspec import Struct

from pixconnect.domain.running.known_cell import SEEN_WITHIN_S, KnownCell, in_other_database
from pixconnect.foundation import pool
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.running import cell_closing, cell_copy
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running.cell_copy import CopyProgress
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import writing
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running.installation import InstallationError

Result = TypeVar("Result")

BESIDE: Final = "postgres"
"""A database that each server has: one cannot be renamed by who is connected to it."""
_NAME: Final = "pixconnect cell move"
# Rows are compared as text, and each database may have another default of how that is written.
_SETTINGS: Final = """
    set statement_timeout = 0; set bytea_output = hex; set datestyle = 'ISO, YMD'; set intervalstyle = iso_8601;
    set extra_float_digits = 1; set xmlbinary = base64
"""


class MoveBounds(Struct, frozen=True, kw_only=True):
    look_every_s: float = 1.0
    arrives_within_s: float = 0.5
    """The gate is not closed before what is written now arrives so soon."""
    gate_max_s: float = 1.2
    """How long nobody can write before the source is opened again; processes need what is left of two seconds."""
    row_max_s: float = 0.3
    """How long the row in the home cell may wait for each lock that somebody has there, for the cell is closed meanwhile."""
    pause_max_s: float = 10
    """How long the target may take to ask the source for nothing, before that is closed."""
    calls_max_s: float = 90
    """After so long no call at an institution is under way: it leaves within 30 seconds, and is given up 20 later."""
    silent_max_s: float = 5
    """After so long, and again and again, it is said for whom the move waits."""
    lost_after_s: float = 30
    """After so long a table whose slot is gone is one that the target forgot that it has."""
    home_max_s: float = 60
    """How long a home cell that was lost while its row was being written is waited for, and then an end of the move."""
    seen_within_s: float = SEEN_WITHIN_S + 1
    """After so long each process looks often enough not to miss the moment."""


class CellMove(Struct, frozen=True, kw_only=True):
    """What moving cells needs beside the home cell."""

    context: OperatorContext
    schemas: Mapping[str, str]
    """Those of a cell, with the packages of their migrations; that of the service is first."""
    url_of: Callable[[str], str]
    """The owner's address of a database, by the address of a cell."""
    check_server: Callable[[asyncpg.Connection], Awaitable[None]]
    """Refuses a target whose server is too old."""
    make_tables: Callable[[KnownCell], Awaitable[None]]
    """Makes the tables of a cell at its address, and refuses one that is not as it must be."""
    tell: Callable[[CopyProgress], None]
    say: Callable[[str], None]
    """Says what else the operator is to know."""
    bounds: MoveBounds = MoveBounds()

    @asynccontextmanager
    async def connect(self, address: str, database: str | None = None) -> AsyncGenerator[asyncpg.Connection]:
        """As the owner, to a cell's database or another one of its server; waits as long as a statement takes."""
        url = self.url_of(address) if database is None else in_other_database(self.url_of(address), database)
        connection = await pool.connect(url, role=None, schema=next(iter(self.schemas)), name=_NAME)
        try:
            await connection.execute(_SETTINGS)
            yield connection
        finally:
            # What was done stays done: a server that hangs now is met by whoever asks it next.
            with suppress(TimeoutError):
                await connection.close(timeout=5)


@asynccontextmanager
async def writing_row(move: CellMove, home: Connection) -> AsyncGenerator[Connection]:
    """A transaction on the connection that has the lock, whose COMMIT is the end of it or ``OutcomeUnknown``."""
    async with writing(move.context.pool) as write, write.begin_on(home) as connection:
        yield connection


async def record_row(move: CellMove, connection: Connection, before: KnownCell, after: KnownCell | None) -> KnownCell:
    if after is None:
        raise InstallationError(f"somebody else has changed the cell {before.name} meanwhile: look at `cell list`")
    await audit.record(move.context, connection, "cell move", f"cell {before.name}", before=before, after=after)
    return after


async def until_done(ending: Coroutine[None, None, Result]) -> Result:
    """The result of what is not to be left half done: whoever is stopped once more waits all the same."""
    task = asyncio.ensure_future(ending)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


async def reopen_source(move: CellMove, known: KnownCell) -> bool:
    """Let the source be used: it gets its name back, and money may leave its accounts; whether it was closed."""
    was_closed = await _give_name_back(move, known)
    async with move.connect(known.address) as source:
        await hold_store.let_send(source)
    return was_closed


async def _give_name_back(move: CellMove, known: KnownCell) -> bool:
    async with move.connect(known.address, BESIDE) as beside, move.connect(known.address, BESIDE) as another:
        if not await cell_closing.has_database(beside, known.closed_database):
            return False
        if await cell_closing.has_database(beside, known.database):
            raise InstallationError(
                f"there is a database {known.database} beside {known.closed_database}, which is the cell: rename the one that "
                "somebody has made, and run this again"
            )
        await cell_closing.rename_database(beside, another, known.closed_database, known.database)
        return True


async def end_copy(move: CellMove, known: KnownCell) -> None:
    """End what a cell that has moved does not need any more: the subscription, and at its former server the slot."""
    async with move.connect(known.address) as target:
        # Where the home cell did not know that it is the cell, services were kept out.
        await cell_closing.let_services_in(target)
        name = await cell_copy.find_subscription(target)
        if name is None:
            return
        await installation_store.note_last_move(target, name)
        try:
            former = await pool.connect(
                await cell_copy.read_source_url(target, name), role=None, schema=next(iter(move.schemas)), name=_NAME
            )
            try:
                await cell_copy.drop_slots(former, name)
                # Should somebody open it again all the same.
                await installation_store.note_elsewhere(former)
            finally:
                await former.close(timeout=5)
        except DATABASE_AWAY:
            move.say(
                f"the former server does not answer: drop its replication slot {name}, which keeps its log for nobody"
            )
        await cell_copy.unsubscribe(target, name)
