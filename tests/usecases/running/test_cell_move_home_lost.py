"""The home cell is lost while a cell is being moved: whoever moves it waits for each that is silent, and ends what it began."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, get_args

import asyncpg
import pytest
from msgspec import Struct, structs

from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.pool import LOCK_TIMEOUT_MS, Connection
from pixconnect.store.running import cell_closing
from pixconnect.usecases.running.cell_move import move_cell
from pixconnect.usecases.running.cell_mover import CellMove
from pixconnect.usecases.running.installation import InstallationError
from support import cells
from support.cell_places import BOUNDS, NOBODY, Place, open_owner, postgres_name, serial, take_away
from support.postgres import Addresses

pytestmark = pytest.mark.long

WAITED = "the home cell, or one of the two databases, was lost in the middle of it: it is waited for"


@asynccontextmanager
async def locking_cells(home: Addresses) -> AsyncIterator[asyncpg.Connection]:
    """Nobody can write a row of a cell, until the home cell's sessions are ended."""
    async with open_owner(home) as connection:
        # It has no transaction id, for whose end a copy would wait.
        await connection.execute("begin; lock table cell in share mode")
        yield connection


class ClosedCell(Struct, frozen=True, kw_only=True):
    """A cell that somebody moves, and that is closed just now: the row waits for a lock."""

    known: KnownCell
    moving: asyncio.Task[KnownCell]
    said: list[str]
    locking: asyncpg.Connection
    server: Connection
    home: str
    away: str

    async def lose_home(self) -> None:
        await take_away(self.server, self.home, self.away)

    async def let_home_come_back(self) -> None:
        await self.server.execute(f"alter database {self.away} rename to {self.home}")

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            assert not self.moving.done(), self.moving.exception()
            await asyncio.sleep(0.05)


def as_it_is(move: CellMove) -> CellMove:
    return move


@asynccontextmanager
async def closed_cell(
    made: Place, *, row_max_s: float = 20, home_max_s: float = 60, change: Callable[[CellMove], CellMove] = as_it_is
) -> AsyncIterator[ClosedCell]:
    await made.begin()
    known, said = await made.read_row(), list[str]()
    bounds = structs.replace(BOUNDS, row_max_s=row_max_s, home_max_s=home_max_s)
    async with (
        locking_cells(made.home) as locking,
        made.moving(makes_tables=False) as move,
        open_owner(made.server) as server,
    ):
        patient = change(structs.replace(move, say=said.append, bounds=bounds))
        moving = asyncio.create_task(move_cell(patient, cells.NAME, made.target))
        while not await cell_closing.has_database(server, known.closed_database):  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.01)
        yield ClosedCell(
            known=known,
            moving=moving,
            said=said,
            locking=locking,
            server=server,
            home=postgres_name(made.home),
            away=f"away_{next(serial)}",
        )


End = Literal["back", "late", "stopped", "stopped before"]


@pytest.mark.parametrize("end", get_args(End))
async def test_a_home_cell_that_is_lost_while_the_cell_is_closed_is_waited_for(made: Place, end: End) -> None:
    async with closed_cell(made, home_max_s=1 if end == "late" else 60) as closed:
        if end == "stopped before":
            # Whoever undoes the move cannot read the row, for longer than a lock is waited for.
            await closed.locking.execute("lock table cell in access exclusive mode")
            closed.moving.cancel()
            await asyncio.sleep(LOCK_TIMEOUT_MS / 1000 + 1)
        await closed.lose_home()
        if end == "late":
            with pytest.raises(InstallationError, match="in vain, run this again"):
                await closed.moving
        elif end == "stopped before":
            with pytest.raises(asyncio.CancelledError):
                await closed.moving
        else:
            await closed.wait_until(lambda: WAITED in closed.said)
        if end == "stopped":
            closed.moving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closed.moving
        assert closed.said[0].startswith("the cell second may be closed until `pixconnect cell move second --to")
        assert closed.said[1:] == ([] if end == "stopped before" else [WAITED])
        await closed.let_home_come_back()
        if end == "back":
            assert (await closed.moving).address == made.target
    if end != "back":
        assert await made.has_database(closed.known.closed_database)
        assert (await made.move(makes_tables=False)).address == made.target


class LostEnd:
    """One of the two databases of a move, which gives no answer while it is said to."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.is_silent = False
        self.asked_count = 0

    def change(self, move: CellMove) -> CellMove:
        def url_of(wanted: str) -> str:
            if wanted != self._address or not self.is_silent:
                return move.url_of(wanted)
            self.asked_count += 1
            return NOBODY

        return structs.replace(move, url_of=url_of)


@pytest.mark.parametrize("silent", ["source", "target"])
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_an_end_of_the_move_that_comes_back_later_than_the_home_cell_is_waited_for_too(
    made: Place, *, silent: str, is_stopped: bool
) -> None:
    lost = LostEnd(made.target if silent == "target" else (await made.read_row()).address)
    async with closed_cell(made, change=lost.change) as closed:
        await closed.lose_home()
        await closed.wait_until(lambda: WAITED in closed.said)
        lost.is_silent = True
        await closed.let_home_come_back()
        # More than one try has ended by it.
        await closed.wait_until(lambda: lost.asked_count > 2)
        if is_stopped:
            closed.moving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closed.moving
            # Nobody opens one of them while it is not known what the other is.
            assert await made.has_database(closed.known.closed_database)
        lost.is_silent = False
        if not is_stopped:
            assert (await closed.moving).address == made.target
    if is_stopped:
        assert (await made.move(makes_tables=False)).address == made.target


async def test_a_source_that_is_lost_once_it_is_closed_is_waited_for(made: Place) -> None:
    lost = LostEnd((await made.read_row()).address)
    async with closed_cell(made, row_max_s=1, change=lost.change) as closed:
        lost.is_silent = True
        await closed.wait_until(lambda: WAITED in closed.said and lost.asked_count > 3)
        lost.is_silent = False
        await closed.locking.execute("rollback")
        assert (await closed.moving).address == made.target
    assert closed.said[0].startswith("the cell second may be closed until")
