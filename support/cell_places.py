"""A cell on a server that keeps a logical log, and where it is to go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from msgspec import Struct, structs

from pixconnect.cli.running import cell_moving
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing, cell_copy
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running.installation import Mode
from pixconnect.usecases.running import cell_move
from pixconnect.usecases.running.cell_move_ends import cancel_move
from pixconnect.usecases.running.cell_mover import CellMove, MoveBounds
from support import cells, postgres
from support.dying import KilledError, die
from support.postgres import Addresses

serial = count(1)
# The machine of the tests may be slow, and no process looks at the home cell here.
BOUNDS = MoveBounds(look_every_s=0.1, arrives_within_s=5, gate_max_s=20, home_max_s=1, seen_within_s=0)
NOBODY = "postgresql://127.0.0.1:1/nobody"
_WRITE = "insert into audit (operator, verb, subject) values ('test', 'write', 'cell') returning id"
_MAKE_MOVER = """
    do $$ begin create role mover superuser login password 'mover'; exception when duplicate_object then null; end $$
"""
_READ = "select id from audit where verb = 'write' order by id"


class Place(Struct, frozen=True, kw_only=True):
    """A home cell, its cell, and where that is to go."""

    server: Addresses
    home: Addresses
    old: Addresses
    new: Addresses
    mode: Mode = "sandbox"
    bounds: MoveBounds = BOUNDS

    @property
    def target(self) -> str:
        return cells.address_of(self.new)

    async def read_row(self) -> KnownCell:
        async with open_owner(self.home) as home:
            [known] = await cell_store.list_all(home)
        return known

    async def has_database(self, name: str) -> bool:
        async with open_owner(self.home) as home:
            return await cell_closing.has_database(home, name)

    async def begin(self) -> None:
        """As whoever dies once the target's tables are there."""
        async with open_owner(self.home) as home:
            known = await cell_store.begin_move(home, await self.read_row(), self.target)
        assert known is not None
        await cells.let_claim(self.new, known, self.mode)

    @asynccontextmanager
    async def moving(self, *, makes_tables: bool = True) -> AsyncIterator[CellMove]:
        settings = cells.home_settings(self.home, mode=self.mode)
        async with cells.operating_at_home(settings) as operator:
            move = cell_moving.prepare_move(operator, settings, self.bounds)

            async def has_them(_: KnownCell) -> None: ...

            yield move if makes_tables else structs.replace(move, make_tables=has_them)

    async def move(self, *, makes_tables: bool = True) -> KnownCell:
        async with self.moving(makes_tables=makes_tables) as move:
            return await cell_move.move_cell(move, cells.NAME, self.target)

    async def cancel(self, said: list[str] | None = None) -> KnownCell:
        """Take the move back; what the operator hears is added to a list, where one is given."""
        async with self.moving() as move:
            heard = move if said is None else structs.replace(move, say=said.append)
            return await cancel_move(heard, cells.NAME)


@asynccontextmanager
async def open_owner(addresses: Addresses) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(addresses.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        yield connection
    finally:
        await connection.close()


def kill(patch: pytest.MonkeyPatch, where: object, name: str, options: dict[str, Any]) -> None:
    die(where, name, patch, **options)
    # Who is dead undoes nothing.
    die(cell_move, "_undo", patch, before=True)


async def write(addresses: Addresses, ids: list[int]) -> None:
    async with open_owner(addresses) as connection:
        ids.append(await connection.fetchval(_WRITE))


async def check_written(there: Connection, ids: list[int]) -> None:
    """What ``write`` has answered is there, in that order, and nothing else."""
    assert [each["id"] for each in await there.fetch(_READ)] == ids


async def was_elsewhere(addresses: Addresses) -> bool:
    async with open_owner(addresses) as there:
        return await installation_store.was_elsewhere(there)


async def refuse_leftovers(place: Place) -> None:
    async with open_owner(place.new) as there:
        assert await cell_copy.find_subscription(there) is None
        assert await there.fetch("select slot_name from pg_replication_slots") == []


def postgres_name(addresses: Addresses) -> str:
    return urlsplit(addresses.owner_url).path[1:]


async def move_until(place: Place, monkeypatch: pytest.MonkeyPatch, name: str, *, before: bool = False) -> None:
    with monkeypatch.context() as patch:
        kill(patch, cell_copy, name, {"before": before})
        with pytest.raises(KilledError):
            await place.move(makes_tables=False)


async def put_back(place: Place, known: KnownCell) -> None:
    """Let the home cell say what it said while the cell was being moved."""
    async with open_owner(place.home) as home:
        await home.execute(
            "update cell set state = 'MOVING', address = $1, other_address = $2, moving_since = $3",
            *(known.address, known.other_address, known.moving_since),
        )


async def open_closed(place: Place, known: KnownCell) -> None:
    """As whoever puts the files of the source back to when it was open."""
    rename = f"alter database {known.closed_database} rename to {known.database}"
    await postgres.execute_as_owner(place.server, rename)


async def begin_elsewhere(made: Place, elsewhere: Addresses) -> Place:
    """The same with its cell on another server, being moved to where it was."""
    # Both servers have the same login, as cells have.
    for addresses in (made.server, elsewhere):
        await cells.execute(addresses, _MAKE_MOVER)
    host = made.home.owner_url.rpartition("@")[2]
    place = structs.replace(
        made,
        old=await postgres.make_copy(elsewhere, "old"),
        home=structs.replace(made.home, owner_url=f"postgresql://mover:mover@{host}"),
    )
    await cells.lead_to(place.home, place.old)
    await cells.let_claim(place.old, await place.read_row())
    # Somebody has used the cell: its tables say on which server they are.
    async with open_owner(place.old) as there:
        await installation_store.note_server(there, await installation_store.read_server(there), has_come=True)
    await place.begin()
    return place


async def take_away(server: Connection, name: str, away: str) -> None:
    """As a server that is started again: all sessions end, and it is away for a moment."""
    await server.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
    try:
        await server.execute(f"alter database {name} rename to {away}")
    except asyncpg.ObjectInUseError:
        # Somebody was quicker, and is back.
        await take_away(server, name, away)


async def count_loss(addresses: Addresses) -> None:
    """As whoever meets a database that has forgotten something, by a clock that is behind."""
    await postgres.execute_as_owner(
        addresses,
        "insert into pixconnect.database_loss (reason, system_identifier, started_at, orders_count, noticed_at)"
        " select 'put back', 1, now(), 0, now() - interval '1 hour';"
        " update pixconnect.installation set elsewhere_since = null",
    )


async def can_log_in(addresses: Addresses) -> bool:
    """Whether a service gets a connection."""
    try:
        connection = await asyncpg.connect(addresses.service_url)
    except asyncpg.TooManyConnectionsError:
        return False
    await connection.close()
    return True
