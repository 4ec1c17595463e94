"""The home cell was put back to a move of a cell: nothing that a move has closed is opened."""

from datetime import timedelta
from uuid import uuid4

import pytest
from msgspec import structs

from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import cell_opening, migrate
from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running import partition as partition_store
from pixconnect.usecases.running.cell_move_ends import take_over
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.cell_places import (
    NOBODY,
    Place,
    can_log_in,
    check_written,
    count_loss,
    kill,
    move_until,
    open_owner,
    postgres_name,
    put_back,
    serial,
    take_away,
    was_elsewhere,
    write,
)
from support.dying import KilledError, die

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
    async with open_owner(further.new) as there:
        # As who took it for a copy, and kept it.
        await cell_closing.keep_services_out(there)
    found = await let_know(place, further.target)
    assert await can_log_in(further.new)
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


async def test_two_moves_that_were_begun_in_one_second_are_told_apart(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def be_begun_at(place: Place, instant: str) -> KnownCell:
        await place.begin()
        async with open_owner(place.home) as home:
            await home.execute("update cell set moving_since = $1::text::timestamptz", instant)
        return await place.read_row()

    first = await be_begun_at(made, "2026-11-26 12:00:00.1Z")
    await move_until(made, monkeypatch, "write_comparison")
    await made.cancel()
    again = structs.replace(made, new=await postgres.make_copy(made.server, f"again_{next(serial)}"))
    second = await be_begun_at(again, "2026-11-26 12:00:00.2Z")
    assert first.closed_database == second.closed_database
    await again.move(makes_tables=False)
    await put_back(made, first)
    await refuse_all(made)
    await postgres.execute_as_owner(made.home, f"drop database {postgres_name(made.new)} with (force)")
    await refuse_all(made)
    assert (await let_know(made, again.target)).address == again.target


async def test_nobody_takes_over_a_cell_that_has_moved_on(moved: tuple[Place, KnownCell]) -> None:
    place, known = moved
    since = errors.require(known.moving_since, "it was being moved")
    async with open_owner(place.new) as there:
        await installation_store.note_last_move(
            there, structs.replace(known, moving_since=since + timedelta(hours=1)).copy_name
        )
    await put_back(place, structs.replace(known, address=NOBODY))
    await refuse_all(place)
    async with place.moving() as move:
        with pytest.raises(InstallationError, match="has moved on since: find the database"):
            await take_over(move, cells.NAME)
    assert not await was_elsewhere(place.new)


async def test_a_copy_that_somebody_began_to_take_over_is_not_taken_for_the_cell_once_its_source_is_back(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    known = await made.read_row()
    with monkeypatch.context() as patch:
        # It is noted as the cell's server by then.
        kill(patch, hold_store, "let_send", {"before": True, "call": 2})
        with pytest.raises(KilledError):
            await made.move(makes_tables=False)
    assert await made.has_database(known.closed_database)
    await put_back(made, structs.replace(known, address=NOBODY))
    with monkeypatch.context() as patch:
        # By then it has left out ids, as if it had given them out.
        die(partition_store, "make", patch, before=True)
        async with made.moving() as move:
            with pytest.raises(KilledError):
                await take_over(move, cells.NAME)
    assert await was_elsewhere(made.new)
    await put_back(made, known)
    assert (await made.cancel()).address == known.address
    assert not await was_elsewhere(made.old)


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
    assert (await made.cancel(said)).address == known.address
    assert said == [f"there is no database at {made.target} any more, so nothing is left there"]


async def test_a_target_that_is_another_cell_by_now_is_left_as_it_is(made: Place) -> None:
    known, said = await made.read_row(), list[str]()
    await cells.let_claim(made.new, structs.replace(known, identity=uuid4()))
    async with open_owner(made.home) as home:
        await cell_store.begin_move(home, known, made.target)
    await made.cancel(said)
    assert said == [f"the database at {made.target} is another cell's by now, and is left as it is"]
    assert await can_log_in(made.new)


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
    await count_loss(made.old)
    with pytest.raises(InstallationError, match=r"the copy may have what it has forgotten: .* --cancel"):
        await made.move(makes_tables=False)
    assert await made.has_database(known.database)
    assert (await made.cancel()).state == "OPEN"


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
