"""What an earlier move has left at its servers, and what else happens there, takes nothing from a move and does not stop it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.running import cell_copy
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running import cell_move
from pixconnect.usecases.running.cell_move_ends import take_over
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.cell_places import (
    BOUNDS,
    NOBODY,
    Place,
    check_written,
    count_loss,
    move_until,
    open_owner,
    postgres_name,
    put_back,
    refuse_leftovers,
    serial,
    was_elsewhere,
    write,
)
from support.dying import KilledError, die

pytestmark = pytest.mark.long

_ALL_SLOTS = "select slot_name::text, active_pid from pg_replication_slots"


async def go_elsewhere(place: Place) -> Place:
    """The same, to be moved on from its target."""
    made = await postgres.make_copy(place.server, f"made_{next(serial)}")
    return structs.replace(place, new=made)


@asynccontextmanager
async def a_stale_copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The copy of a move that was taken back while its server was away, and which is back."""
    await place.begin()
    await move_until(place, monkeypatch, "write_comparison")
    async with open_owner(place.home) as home, open_owner(place.new) as stale:
        await home.execute("update cell set other_address = $1", NOBODY)
        assert (await place.cancel()).state == "OPEN"
        name = await cell_copy.find_subscription(stale)
        assert name is not None
        try:
            yield name
        finally:
            await cell_copy.unsubscribe(stale, name)


async def test_a_copy_of_an_earlier_move_gets_nothing_of_what_the_next_one_is_to_have(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = list[int]()
    place = await go_elsewhere(made)
    async with a_stale_copy(made, monkeypatch) as stale_name, open_owner(made.new) as stale:
        await place.begin()
        await move_until(place, monkeypatch, "make_slot")
        # It begins at once to ask for the slot that it had, and the new copy is not there yet.
        await stale.execute(f"alter subscription {stale_name} disable")
        await stale.execute(f"alter subscription {stale_name} enable")
        await asyncio.sleep(1)
        assert [each["active_pid"] for each in await stale.fetch(_ALL_SLOTS)] == [None]
        await write(place.old, ids)
        assert (await place.move(makes_tables=False)).address == place.target
        await refuse_leftovers(place)
        await write(place.new, ids)
        await check_written(stale, [])
    async with open_owner(place.new) as there:
        await check_written(there, ids)


async def test_a_cell_moves_on_although_its_last_move_was_cut_off_once_it_was_open_there(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    ids = list[int]()
    await move_until(made, monkeypatch, "drop_slots", before=True)
    await write(made.new, ids)
    place = structs.replace(await go_elsewhere(made), old=made.new)
    empty = await postgres.make_empty(place.server, f"new_{next(serial)}")
    # Whoever moves it on ends the former move first, and the database that was left keeps no slot.
    place = structs.replace(place, new=empty)
    # Another server writes values otherwise by default.
    async with open_owner(place.home) as home:
        for setting in ("datestyle = 'SQL, DMY'", "bytea_output = 'escape'", "intervalstyle = 'sql_standard'"):
            await home.execute(f"alter database {postgres_name(empty)} set {setting}")
    await move_until(place, monkeypatch, "is_published", before=True)
    await refuse_leftovers(structs.replace(place, new=place.old))
    assert (await place.move()).address == place.target
    await refuse_leftovers(place)
    await write(place.new, ids)
    async with open_owner(place.new) as there:
        await check_written(there, ids)


async def test_a_target_that_is_killed_knows_of_which_tables_the_slot_is_gone(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By default it would keep that for the next flush.
    async with a_stale_copy(made, monkeypatch) as name, open_owner(made.new) as target:
        query = "select subsynccommit from pg_subscription where subname = $1"
        assert await target.fetchval(query, name) == "on"


async def test_a_copy_that_asks_for_a_slot_that_is_gone_is_told_and_the_move_begun_again(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = list[int]()
    await write(made.old, ids)
    await made.begin()
    await move_until(made, monkeypatch, "write_comparison")
    # PostgreSQL drops the slot before the COMMIT of what says so: this is a target that was killed in between.
    forget = "update pg_subscription_rel set srsubstate = 'f', srsublsn = null where srrelid = 'audit'::regclass"
    async with open_owner(made.new) as target:
        await target.execute(forget)
    async with made.moving(makes_tables=False) as move:
        hasty = structs.replace(move, bounds=structs.replace(move.bounds, lost_after_s=0))
        with pytest.raises(InstallationError, match="--cancel"):
            await cell_move.move_cell(hasty, cells.NAME, made.target)
    assert (await made.cancel()).state == "OPEN"
    await write(made.old, ids)
    place = structs.replace(made, new=await postgres.make_empty(made.server, f"new_{next(serial)}"))
    assert (await place.move()).address == place.target
    await refuse_leftovers(place)
    async with open_owner(place.new) as there:
        await check_written(there, ids)


async def test_a_copy_is_asked_about_by_its_own_database_alone(made: Place) -> None:
    """Another database of the same server may have a subscription of the same name, as one that was copied file by file."""
    other = await go_elsewhere(made)
    name = "pixconnect_move_twice"
    url = made.old.owner_url
    async with open_owner(made.old) as source, open_owner(made.new) as target, open_owner(other.new) as beside:
        await cell_copy.publish(source, name, ["pixconnect.audit"])
        await cell_copy.make_slot(source, name)
        await cell_copy.make_slot(source, f"{name}_beside")
        await beside.execute(
            f"create subscription {name} connection '{url}' publication {name} "
            f"with (create_slot = false, slot_name = {name}_beside, copy_data = false)"
        )
        await cell_copy.subscribe(target, name, f"{url}&application_name=own")
        assert (await cell_copy.read_source_url(target, name)).endswith("own")
        assert not (await cell_copy.read_source_url(beside, name)).endswith("own")
        # The worker of the other one goes on.
        async with asyncio.timeout(5):
            await cell_copy.pause(target, name)
        assert await cell_copy.find_slot(target, name) is None
        assert await cell_copy.find_slot(source, name) is not None
        for each in (target, beside):
            await cell_copy.unsubscribe(each, name)
        await cell_copy.drop_slots(source, name)
        await cell_copy.drop_slots(source, f"{name}_beside")


async def test_a_cell_is_not_kept_closed_by_who_locks_the_home_cell_nor_by_a_target_that_is_lost(made: Place) -> None:
    await made.begin()
    closed = (await made.read_row()).closed_database
    async with open_owner(made.home) as home, made.moving(makes_tables=False) as move, open_owner(made.home) as beside:
        quick = structs.replace(move, bounds=structs.replace(BOUNDS, row_max_s=0.5))
        async with home.transaction():
            await home.execute("lock table audit in share mode")
            moving = asyncio.create_task(cell_move.move_cell(quick, cells.NAME, made.target))
            while not await made.has_database(closed):
                assert not moving.done()
                await asyncio.sleep(0.01)
            # Once what it had last is there, nobody gets to the target any more.
            async with open_owner(made.new) as there:
                since = await there.fetchval("select clock_timestamp()")
                while await there.fetchval("select exists (select from pg_stat_subscription where pid is not null)"):  # noqa: ASYNC110  the server tells nobody
                    await asyncio.sleep(0.01)
            await beside.execute(f"alter database {postgres_name(made.new)} allow_connections false")
            with pytest.raises(
                InstallationError, match=r"served where it was: .* lock timeout; its copy does not answer"
            ):
                await moving
            # As long as any other statement waits for a lock would be too long.
            assert (await beside.fetchval("select clock_timestamp()") - since).total_seconds() < 3
        await beside.execute(f"alter database {postgres_name(made.new)} allow_connections true")
    ids = list[int]()
    await write(made.old, ids)
    assert (await made.move(makes_tables=False)).address == made.target


async def test_a_move_waits_for_who_writes_at_that_server_and_says_for_whom(made: Place) -> None:
    await made.begin()
    said = list[str]()
    async with open_owner(made.home) as home, made.moving(makes_tables=False) as move:
        waiting = structs.replace(move, say=said.append, bounds=structs.replace(BOUNDS, silent_max_s=0.2))
        async with home.transaction():
            await home.execute("select pg_current_xact_id()")
            pid = await home.fetchval("select pg_backend_pid()")
            moving = asyncio.create_task(cell_move.move_cell(waiting, cells.NAME, made.target))
            # Longer than a statement waits for a lock elsewhere.
            await asyncio.sleep(4)
            assert not moving.done()
        assert (await moving).address == made.target
    assert any(f"until a transaction that writes has ended: process {pid} of " in line for line in said)


@pytest.mark.parametrize("left", ["", "drop_slots", "unsubscribe"])
async def test_a_home_cell_that_was_put_back_to_a_move_that_has_ended_does_not_open_what_was_left(
    made: Place, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    await made.begin()
    known, ids = await made.read_row(), list[int]()
    if left:
        await move_until(made, monkeypatch, left, before=True)
        # Workers serve it since.
        async with open_owner(made.new) as there:
            await installation_store.note_high_water(there)
    else:
        await made.move(makes_tables=False)
    await write(made.new, ids)
    await put_back(made, known)
    with pytest.raises(InstallationError, match=f"is at {re.escape(made.target)} already"):
        await made.cancel()
    assert not await made.has_database(known.database)
    moved = await made.move(makes_tables=False)
    assert (moved.state, moved.address) == ("OPEN", made.target)
    assert not await made.has_database(known.database)
    await refuse_leftovers(made)
    async with open_owner(made.new) as there:
        await check_written(there, ids)
        assert not await installation_store.was_elsewhere(there)


async def test_a_home_cell_that_was_put_back_finds_the_cell_although_its_former_server_is_gone(made: Place) -> None:
    await made.begin()
    known, ids = await made.read_row(), list[int]()
    await made.move(makes_tables=False)
    await write(made.new, ids)
    await put_back(made, structs.replace(known, address=NOBODY))
    async with made.moving() as move:
        assert (await take_over(move, cells.NAME)).address == made.target
    async with open_owner(made.new) as there:
        await check_written(there, ids)
        # All of it had come.
        assert not await installation_store.was_elsewhere(there)


async def test_a_former_database_that_somebody_has_opened_again_is_named_beside_the_cell(made: Place) -> None:
    await made.begin()
    known = await made.read_row()
    await made.move(makes_tables=False)
    async with open_owner(made.home) as home:
        await home.execute(f"alter database {known.closed_database} rename to {known.database}")
    await put_back(made, known)
    for end in (made.cancel, made.move):
        with pytest.raises(InstallationError, match="its former database is open again"):
            await end()
    # What a move has closed may be dropped.
    async with open_owner(made.home) as home:
        await home.execute(f"drop database {known.database}")
    assert (await made.move()).address == made.target


async def test_a_move_that_has_not_ended_is_not_taken_for_one_that_has_whatever_is_missing(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known, ids = await made.read_row(), list[int]()
    await write(made.old, ids)
    await move_until(made, monkeypatch, "find_unlike", before=True)
    assert await made.has_database(known.closed_database)
    # A standby that took over has no slot, and somebody has ended the copy.
    async with open_owner(made.new) as there:
        await cell_copy.unsubscribe(there, known.copy_name)
    async with open_owner(postgres.in_database(made.server, known.closed_database)) as closed:
        await cell_copy.drop_slots(closed, known.copy_name)
    await move_until(made, monkeypatch, "subscribe", before=True)
    assert await made.has_database(known.database)
    await write(made.old, ids)
    assert (await made.move(makes_tables=False)).address == made.target
    async with open_owner(made.new) as there:
        await check_written(there, ids)
        assert not await installation_store.was_elsewhere(there)


async def test_a_cell_stays_closed_while_nobody_knows_whether_it_was_opened_elsewhere_unless_a_loss_is_counted(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    await move_until(made, monkeypatch, "find_unlike", before=True)
    async with open_owner(made.home) as home:
        await home.execute("update cell set other_address = $1", NOBODY)
    known = await made.read_row()
    async with made.moving() as move:
        with pytest.raises(InstallationError, match="in which it may have been opened"):
            await cell_move.move_cell(move, cells.NAME, NOBODY)
    assert not await made.has_database(known.database)
    assert (await made.cancel()).address == known.address
    async with open_owner(made.old) as here:
        assert await installation_store.was_elsewhere(here)
    async with open_owner(made.new) as there:
        await cell_copy.unsubscribe(there, known.copy_name)


async def test_a_target_that_was_made_anew_while_the_cell_is_closed_says_nothing_of_what_it_had(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known = await made.read_row()
    await move_until(made, monkeypatch, "find_unlike", before=True)
    async with open_owner(made.new) as there:
        await cell_copy.unsubscribe(there, known.copy_name)
    name = postgres_name(made.new)
    await postgres.execute_as_owner(made.server, f"drop database {name}")
    await postgres.make_empty(made.server, name)
    with pytest.raises(InstallationError, match=r"in which it may have been opened .* has no tables of ours any more"):
        await made.move()
    assert not await made.has_database(known.database)
    assert (await made.cancel()).address == known.address
    assert await was_elsewhere(made.old)


@pytest.mark.parametrize("is_met", [False, True])
async def test_a_target_is_kept_that_may_have_what_is_missing_however_often_the_move_is_taken_back(
    made: Place, monkeypatch: pytest.MonkeyPatch, *, is_met: bool
) -> None:
    await made.begin()
    known, said = await made.read_row(), list[str]()
    await move_until(made, monkeypatch, "find_unlike", before=True)
    await put_back(made, structs.replace(known, other_address=NOBODY))
    with monkeypatch.context() as patch:
        # The cell is open by then, and nobody knows it.
        die(hold_store, "let_send", patch)
        with pytest.raises(KilledError):
            await made.cancel()
    assert await made.has_database(known.database)
    if is_met:
        await count_loss(made.old)
    await put_back(made, known)
    await made.cancel(said)
    assert "compare the two before you drop it" in said[-1]
