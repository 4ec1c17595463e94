"""The home cell was put back to a move of a cell, or lost in the middle of one: nothing that a move has closed is opened."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal, get_args

import asyncpg
import pytest
from msgspec import structs

from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import cell_opening, migrate
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.pool import LOCK_TIMEOUT_MS, Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running.cell_move import move_cell
from pixconnect.usecases.running.cell_move_ends import cancel_move, take_over
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.cell_places import (
    BOUNDS,
    NOBODY,
    Place,
    begin_elsewhere,
    check_written,
    kill,
    move_until,
    open_owner,
    postgres_name,
    put_back,
    serial,
    was_elsewhere,
    write,
)
from support.dying import KilledError
from support.logical_postgres import open_logical_server
from support.postgres import Addresses

pytestmark = pytest.mark.long


async def refuse_all(place: Place) -> None:
    """Neither end of the move that the home cell was put back to is there any more."""
    for end in (place.cancel, place.move):
        with pytest.raises(InstallationError, match="has moved on since: find the database"):
            await end()


async def let_know(place: Place, address: str) -> KnownCell:
    """As ``pixconnect cell set``."""
    settings = cells.home_settings(place.home)
    async with cells.operating_at_home(settings) as operator:
        return await cell_opening.set_address(operator, settings, cells.NAME, address, is_fenced=False)


@pytest.fixture
async def moved(made: Place) -> tuple[Place, KnownCell]:
    """A cell that has moved, and how the home cell knew it then."""
    await made.begin()
    known = await made.read_row()
    await made.move(makes_tables=False)
    return made, known


async def go_on(place: Place, name: str) -> Place:
    """Move the cell on from its target to a new database of that name; what was written there is there."""
    await write(place.new, ids := [])
    further = structs.replace(place, old=place.new, new=await postgres.make_copy(place.server, name))
    await further.begin()
    await further.move(makes_tables=False)
    async with open_owner(further.new) as there:
        await check_written(there, ids)
    return further


async def test_a_cell_that_has_come_back_is_left_where_it_is(moved: tuple[Place, KnownCell]) -> None:
    place, known = moved
    back = await go_on(place, postgres_name(place.old))
    closed = cells.address_of(postgres.in_database(place.server, known.closed_database))
    assert back.target == known.address
    await put_back(place, known)
    await refuse_all(place)
    with pytest.raises(InstallationError, match="a move has closed the database"):
        await let_know(place, closed)
    assert (await let_know(place, back.target)).state == "OPEN"
    assert (await place.read_row()).address == back.target
    # It was served there all the time.
    assert not await was_elsewhere(back.new)


@pytest.mark.parametrize("is_dropped", [False, True])
async def test_a_cell_that_has_gone_on_is_found_by_who_knows_where(
    moved: tuple[Place, KnownCell], *, is_dropped: bool
) -> None:
    place, known = moved
    further = await go_on(place, f"further_{next(serial)}")
    if is_dropped:
        await postgres.execute_as_owner(place.home, f"drop database {known.closed_database}")
    await put_back(place, known)
    await refuse_all(place)
    found = await let_know(place, further.target)
    assert (found.state, found.address, found.other_address) == ("OPEN", further.target, None)
    # Nobody knows what else has happened meanwhile.
    assert await was_elsewhere(further.new)
    assert not await place.has_database(known.database)


async def test_a_cell_that_moved_there_by_a_second_try_is_there(made: Place) -> None:
    await made.begin()
    known = await made.read_row()
    await made.cancel()
    again = structs.replace(made, new=await postgres.make_copy(made.server, f"again_{next(serial)}"))
    await again.begin()
    await again.move(makes_tables=False)
    known = structs.replace(known, other_address=again.target)
    await put_back(again, known)
    await refuse_all(again)
    assert (await let_know(again, again.target)).address == again.target
    assert not await was_elsewhere(again.new)


async def test_a_move_whose_maker_of_tables_was_killed_is_taken_back(made: Place) -> None:
    known = await made.read_row()
    async with open_owner(made.home) as home:
        await cell_store.begin_move(home, known, made.target)
    await postgres.execute_as_owner(
        made.new, "alter table pixconnect.installation drop column came_by, drop column seen_at"
    )
    assert (await made.cancel()).address == known.address


async def test_a_target_that_was_dropped_is_missed_by_nobody(made: Place) -> None:
    await made.begin()
    known, said = await made.read_row(), list[str]()
    await postgres.execute_as_owner(made.home, f"drop database {postgres_name(made.new)} with (force)")
    async with made.moving() as move:
        assert (await cancel_move(structs.replace(move, say=said.append), cells.NAME)).address == known.address
    assert said == [f"there is no database at {made.target} any more, so nothing is left there"]


async def test_who_would_open_a_copy_that_is_not_there_hears_how_the_home_cell_is_told(made: Place) -> None:
    await made.begin()
    await put_back(made, structs.replace(await made.read_row(), address=NOBODY))
    await postgres.execute_as_owner(made.home, f"drop database {postgres_name(made.new)} with (force)")
    async with made.moving() as move:
        with pytest.raises(InstallationError, match=r"no copy that could be opened.*cell set second --database-url"):
            await take_over(move, cells.NAME)


async def test_nobody_sets_the_address_of_a_cell_whose_move_is_under_way(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_until(made, monkeypatch, "find_unlike", before=True)
    with pytest.raises(InstallationError, match="is being moved: run"):
        await let_know(made, made.target)
    # It is closed.
    with pytest.raises(CommandError, match="make no database"):
        await let_know(made, known.address)
    assert await made.read_row() == known
    assert (await made.cancel()).address == known.address


@pytest.mark.parametrize("is_again", [False, True])
async def test_a_cell_that_has_moved_before_goes_on_or_back_where_its_next_move_was_cut_off(
    moved: tuple[Place, KnownCell], monkeypatch: pytest.MonkeyPatch, *, is_again: bool
) -> None:
    place, _ = moved
    await write(place.new, ids := [])
    made = await postgres.make_copy(place.server, f"further_{next(serial)}")
    further = structs.replace(place, old=place.new, new=made)
    await further.begin()
    known = await further.read_row()
    # While tables are copied, and then while the cell is closed: what the copy says of moves its source has said.
    for step in ("write_comparison", "find_unlike"):
        await move_until(further, monkeypatch, step, before=step == "find_unlike")
    assert await further.has_database(known.closed_database)
    if is_again:
        assert (await further.move(makes_tables=False)).address == further.target
    else:
        assert (await further.cancel()).address == known.address
    async with open_owner(further.new if is_again else further.old) as there:
        await check_written(there, ids)
        assert not await installation_store.was_elsewhere(there)


async def test_a_copy_that_may_have_what_its_source_has_forgotten_is_not_followed_on(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_until(made, monkeypatch, "write_comparison")
    # Their clocks are not alike.
    await postgres.execute_as_owner(
        made.old,
        "insert into pixconnect.database_loss (reason, system_identifier, started_at, orders_count, noticed_at)"
        " select 'put back', 1, now(), 0, now() - interval '1 hour'",
    )
    with pytest.raises(InstallationError, match=r"the copy may have what it has forgotten: .* --cancel"):
        await made.move(makes_tables=False)
    assert await made.has_database(known.database)
    assert (await made.cancel()).state == "OPEN"


async def move_unnoted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the target, and die before that is noted there."""
    with monkeypatch.context() as patch:
        kill(patch, installation_store, "note_last_move", {"before": True})
        with pytest.raises(KilledError):
            await place.move(makes_tables=False)


@pytest.mark.parametrize("is_noted", [True, False])
async def test_a_move_is_younger_than_the_last_one_whatever_the_home_cell_s_clock_says(
    made: Place, monkeypatch: pytest.MonkeyPatch, *, is_noted: bool
) -> None:
    await made.begin()
    async with open_owner(made.home) as home:
        await home.execute("update cell set moving_since = moving_since + interval '1 hour'")
    last = await made.read_row()
    if is_noted:
        await made.move(makes_tables=False)
    else:
        await move_unnoted(made, monkeypatch)
    empty = await postgres.make_empty(made.server, f"empty_{next(serial)}")
    further = structs.replace(made, old=made.new, new=empty)
    await move_until(further, monkeypatch, "is_published", before=True)
    known = await further.read_row()
    assert last.is_older_than(known.copy_name)
    # Both may close a database of one name.
    assert known.closed_database != last.closed_database
    assert (await further.cancel()).address == made.target


async def take_away(server: Connection, name: str, away: str) -> None:
    """As a server that is started again: all sessions end, and it is away for a moment."""
    await server.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
    try:
        await server.execute(f"alter database {name} rename to {away}")
    except asyncpg.ObjectInUseError:
        # Somebody was quicker, and is back.
        await take_away(server, name, away)


async def test_a_closed_cell_is_named_where_the_home_cell_has_forgotten_the_whole_move(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_until(made, monkeypatch, "find_unlike", before=True)
    async with open_owner(made.home) as home:
        await home.execute("update cell set state = 'OPEN', other_address = null, moving_since = null")
    with pytest.raises(InstallationError, match="`pixconnect cell check second` says what to do"):
        await made.move()
    settings = cells.home_settings(made.home)
    with pytest.raises(CommandError, match="make none there, `pixconnect cell check` says what to do"):
        await migrate.bring_all_up_to_date(settings)
    async with cells.operating_at_home(settings) as operator:
        [finding] = await cell_opening.look_for_faults(operator, settings, await made.read_row())
    assert f"has closed {known.closed_database} there" in finding
    assert f"drop its replication slot {known.copy_name}" in finding
    with pytest.raises(CommandError, match=f"has closed {known.closed_database} there"):
        await let_know(made, known.address)


async def test_a_move_is_taken_back_after_a_dump_was_restored_in_the_place_of_its_source(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    await move_until(made, monkeypatch, "write_comparison")
    name, before = postgres_name(made.old), f"before_{next(serial)}"
    async with open_owner(made.server) as server:
        # The target asks again as soon as it is lost.
        await take_away(server, name, before)
        await postgres.make_copy(made.server, name)
        await cells.let_claim(made.old, await made.read_row())
        assert (await made.cancel()).state == "OPEN"
        # Nothing keeps the log that nobody will read.
        assert not await server.fetch("select from pg_replication_slots where database = $1", before)


async def test_what_was_written_at_the_target_is_not_forgotten_with_the_row(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_unnoted(made, monkeypatch)
    # By a process of the API: it is by workers alone that notes are made.
    await write(made.new, ids := [])
    await put_back(made, known)
    assert (await made.move(makes_tables=False)).address == made.target
    async with open_owner(made.new) as there:
        await check_written(there, ids)


async def crash(addresses: Addresses) -> None:
    """Let the server lose what it has in memory, and wait until it is back."""
    async with open_owner(addresses) as there, open_owner(addresses) as killed:
        os.kill(killed.get_server_pid(), signal.SIGKILL)
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await there.execute("select pg_sleep(60)")
    while True:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            async with open_owner(addresses):
                return
        await asyncio.sleep(0.1)


async def test_a_server_that_was_killed_once_it_was_closed_hides_nothing_of_what_was_written_at_the_target(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_logical_server() as (_, elsewhere):
        place, ids = await begin_elsewhere(made, elsewhere), list[int]()
        known = await place.read_row()
        # After this its log says more of the sequence than was given out.
        await write(place.old, ids)
        await move_unnoted(place, monkeypatch)
        await write(place.new, ids)
        await crash(elsewhere)
        await put_back(place, known)
        assert (await place.move(makes_tables=False)).address == place.target
        async with open_owner(place.new) as there:
            await check_written(there, ids)


@asynccontextmanager
async def locking_cells(home: Addresses) -> AsyncIterator[asyncpg.Connection]:
    """Nobody can write a row of a cell, until the home cell's sessions are ended."""
    async with open_owner(home) as connection:
        # It has no transaction id, for whose end a copy would wait.
        await connection.execute("begin; lock table cell in share mode")
        yield connection


End = Literal["back", "late", "stopped", "stopped before"]


@pytest.mark.parametrize("end", get_args(End))
async def test_a_home_cell_that_is_lost_while_the_cell_is_closed_is_waited_for(made: Place, end: End) -> None:
    await made.begin()
    known, said = await made.read_row(), list[str]()
    name, away = postgres_name(made.home), f"away_{next(serial)}"
    bounds = structs.replace(BOUNDS, row_max_s=20, home_max_s=1 if end == "late" else 60)
    closed = "the cell second may be closed until `pixconnect cell move second --to"
    waited = "the home cell was lost while its row was being written: it is waited for"
    async with (
        locking_cells(made.home) as locking,
        made.moving(makes_tables=False) as move,
        open_owner(made.server) as server,
    ):
        patient = structs.replace(move, say=said.append, bounds=bounds)
        moving = asyncio.create_task(move_cell(patient, cells.NAME, made.target))
        while not await cell_closing.has_database(server, known.closed_database):  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.01)
        if end == "stopped before":
            # Whoever undoes the move cannot read the row, for longer than a lock is waited for.
            await locking.execute("lock table cell in access exclusive mode")
            moving.cancel()
            await asyncio.sleep(LOCK_TIMEOUT_MS / 1000 + 1)
        await take_away(server, name, away)
        if end == "late":
            with pytest.raises(InstallationError, match="in vain, run this again"):
                await moving
        elif end == "stopped before":
            with pytest.raises(asyncio.CancelledError):
                await moving
        else:
            while waited not in said:
                assert not moving.done(), moving.exception()
                await asyncio.sleep(0.05)
        if end == "stopped":
            moving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await moving
        assert said[0].startswith(closed)
        assert said[1:] == ([] if end == "stopped before" else [waited])
        await server.execute(f"alter database {away} rename to {name}")
        if end == "back":
            assert (await moving).address == made.target
    if end != "back":
        assert await made.has_database(known.closed_database)
        assert (await made.move(makes_tables=False)).address == made.target
