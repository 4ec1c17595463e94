"""The target was opened, and who opened it died before that was noted: what was written there is not forgotten."""

import asyncio
import os
import signal
from contextlib import suppress

import asyncpg
import pytest
from msgspec import structs

from pixconnect.store.running import cell_closing
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running.cell_move import move_cell
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.cell_places import (
    NOBODY,
    Place,
    begin_elsewhere,
    can_log_in,
    check_written,
    kill,
    move_until,
    open_closed,
    open_owner,
    put_back,
    serial,
    was_elsewhere,
    write,
)
from support.dying import KilledError
from support.logical_postgres import open_logical_server
from support.postgres import Addresses

pytestmark = pytest.mark.long


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


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_source_that_was_put_back_is_not_opened_beside_a_target_that_was_served(
    made: Place, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    await made.begin()
    known, said = await made.read_row(), list[str]()
    await move_unnoted(made, monkeypatch)
    await write(made.new, ids := [])
    await open_closed(made, known)
    await put_back(made, known)
    with pytest.raises(InstallationError, match="so it may have been served: stop all services"):
        await made.move()
    if is_there:
        rename = f"alter database {known.database} rename to {known.closed_database}"
        await postgres.execute_as_owner(made.server, rename)
        assert (await made.move(makes_tables=False)).address == made.target
        async with open_owner(made.new) as there:
            await check_written(there, ids)
    else:
        serving = await asyncpg.connect(made.old.service_url)
        assert (await made.cancel(said)).address == known.address
        # It is to look anew, and counts a loss then.
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await serving.execute("select 1")
        serving.terminate()
        assert await was_elsewhere(made.old)
        assert "compare the two before you drop it" in said[-1]


async def test_a_target_that_was_ready_is_kept_although_its_source_has_given_out_more_since(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known, said = await made.read_row(), list[str]()
    await move_unnoted(made, monkeypatch)
    await write(made.new, [])
    await open_closed(made, known)
    await write(made.old, [])
    await put_back(made, known)
    await made.cancel(said)
    assert "compare the two before you drop it" in said[-1]


async def test_a_source_that_is_lost_while_it_is_asked_is_not_taken_for_the_target(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known, asked = await made.read_row(), list[str]()
    await move_unnoted(made, monkeypatch)
    await put_back(made, known)
    async with made.moving() as move:

        def url_of(wanted: str) -> str:
            asked.append(wanted)
            is_lost = wanted == known.address and asked.count(made.target) > 1
            return NOBODY if is_lost else move.url_of(wanted)

        with pytest.raises(InstallationError, match="the cell's database does not answer"):
            await move_cell(structs.replace(move, url_of=url_of), cells.NAME, made.target)
    assert (await made.move(makes_tables=False)).address == made.target


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_whoever_serves_a_target_still_that_is_no_cell_is_kept_out(
    made: Place, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_unnoted(made, monkeypatch)
    # Of a process that was stopped, and goes on later.
    frozen = await asyncpg.connect(made.new.service_url)
    await put_back(made, known)
    if is_cancelled:
        assert (await made.cancel()).address == known.address
    else:
        await move_until(made, monkeypatch, "write_comparison")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await frozen.execute("select 1")
    frozen.terminate()
    assert not await can_log_in(made.new)
    if not is_cancelled:
        assert (await made.move(makes_tables=False)).address == made.target
        assert await can_log_in(made.new)


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_cell_that_was_taken_for_a_copy_by_somebody_who_died_lets_services_in(
    made: Place, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_unnoted(made, monkeypatch)
    await write(made.new, [])
    if not is_known:
        await put_back(made, known)
    async with open_owner(made.new) as there:
        assert await cell_closing.keep_services_out(there)
    assert not await can_log_in(made.new)
    assert (await made.move(makes_tables=False)).address == made.target
    assert await can_log_in(made.new)


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
