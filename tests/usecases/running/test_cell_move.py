"""A move of a cell can be cut off at each step: it goes on when it is run again, or is taken back, and nothing is lost."""

import asyncio
from typing import Any, Literal

import pytest
from msgspec import structs

from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import cell_opening, migrate
from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation import migrations, schema_history
from pixconnect.foundation.migrations import NewerSchemaError, SchemaError
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing, cell_copy, cell_ids
from pixconnect.store.running import database_loss as loss_store
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.running import cell_move, known_cells
from pixconnect.usecases.running.cell_move_ends import cancel_move, take_over
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.cell_places import (
    BOUNDS,
    Place,
    begin_elsewhere,
    check_written,
    kill,
    open_owner,
    refuse_leftovers,
    serial,
    write,
)
from support.cut_connections import open_wire
from support.dying import KilledError, die
from support.logical_postgres import open_logical_server

pytestmark = pytest.mark.long

_BEGINNING: list[tuple[object, str, dict[str, Any]]] = [
    (cell_store, "begin_move", {}),
    (cell_move, "_begin", {}),
    (cell_copy, "publish", {}),
    (migrations, "apply", {"call": 100}),
    (known_cells, "claim_tables", {"before": True}),
    (cell_copy, "empty", {}),
    (cell_copy, "make_slot", {}),
    (cell_copy, "subscribe", {}),
]
_COPYING: list[tuple[object, str, dict[str, Any]]] = [
    (cell_move, "_catch_up", {"before": True}),
    (cell_move, "_catch_up", {}),
    (cell_copy, "pause", {}),
    (cell_closing, "rename_database", {"before": True}),
    (cell_closing, "rename_database", {}),
    # The first time is that of who goes on.
    (cell_copy, "follow", {"call": 2}),
    (cell_copy, "find_unlike", {}),
    (installation_store, "note_server", {}),
    (cell_store, "end_move", {}),
]
_ENDING: list[tuple[object, str, dict[str, Any]]] = [
    (cell_move, "_switch", {}),
    (cell_copy, "drop_slots", {}),
    (cell_copy, "unsubscribe", {}),
]


async def refuse_two_homes(place: Place, row: KnownCell) -> None:
    """One database at most is found by the name that the row says, and nobody has opened the other one."""
    is_closed = row.state == "MOVING" and await place.has_database(row.closed_database)
    assert await place.has_database(row.database) != is_closed


async def test_whoever_dies_at_any_step_is_gone_on_from(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = list[int]()
    for where, name, options in [*_BEGINNING, *_COPYING, *_ENDING]:
        with monkeypatch.context() as patch:
            kill(patch, where, name, options)
            with pytest.raises(KilledError):
                await place.move()
        row = await place.read_row()
        assert row.address == (place.target if (where, name, options) in _ENDING else cells.address_of(place.old)), name
        await refuse_two_homes(place, row)
        if await place.has_database(row.database):
            await write(place.new if row.address == place.target else place.old, ids)
        if (where, name, options) == _COPYING[0]:
            await cells.execute(
                place.old, "select pixconnect.add_partition('event_feed', 1099511627776, 1099511627777)"
            )
    assert (await place.move()).address == place.target
    await refuse_leftovers(place)
    await write(place.new, ids)
    async with open_owner(place.new) as there:
        await check_written(there, ids)
        assert ids == sorted(set(ids))
        assert await there.fetchval("select count(*) from database_loss") == 0
        # It was made while tables were copied.
        assert 1_099_511_627_776 in {each.first_id for each in await cell_copy.list_partitions(there)}
    async with open_owner(place.home) as home:
        verbs = [row["verb"] for row in await home.fetch("select verb from audit order by id")]
    assert verbs == ["cell move", "cell move"]


async def test_whoever_takes_a_move_back_finds_the_cell_where_it_was(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ids = made, list[int]()
    for where, name, options in [_BEGINNING[-1], _COPYING[4], *_COPYING[-2:]]:
        await place.begin()
        with monkeypatch.context() as patch:
            # Where it begins anew nobody goes on.
            kill(patch, where, name, options | {"call": 1})
            with pytest.raises(KilledError):
                await place.move(makes_tables=False)
        with monkeypatch.context() as patch:
            die(cell_copy, "drop_slots", patch)
            with pytest.raises(KilledError):
                await place.cancel()
        row = await place.cancel()
        assert (row.state, row.address, row.other_address) == ("OPEN", cells.address_of(place.old), None)
        await refuse_leftovers(place)
        await write(place.old, ids)
        async with open_owner(place.old) as there:
            await check_written(there, ids)
            assert await cell_copy.find_publication(there) is None
        place = structs.replace(place, new=await postgres.make_copy(place.server, f"made_{next(serial)}"))
    with pytest.raises(InstallationError, match="nobody moves the cell second"):
        await place.cancel()


async def test_what_does_not_arrive_in_time_opens_the_cell_again_where_it_was(made: Place) -> None:
    await made.begin()
    ids = list[int]()
    # At different steps: each takes a moment, and none of them is all of it.
    for gate_max_s in (0, 0.02, 0.06):
        async with made.moving(makes_tables=False) as move:
            late = structs.replace(move, bounds=structs.replace(BOUNDS, gate_max_s=gate_max_s))
            with pytest.raises(
                InstallationError, match="is served where it was: what it had last did not arrive in time"
            ):
                await cell_move.move_cell(late, cells.NAME, made.target)
        await write(made.old, ids)
    closed = (await made.read_row()).closed_database
    async with made.moving(makes_tables=False) as move:
        # Whoever stops the verb while the cell is closed waits until it is open again.
        moving = asyncio.create_task(cell_move.move_cell(move, cells.NAME, made.target))
        while not await made.has_database(closed):  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.01)
        moving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await moving
    await write(made.old, ids)
    assert (await made.move(makes_tables=False)).address == made.target
    async with open_owner(made.new) as there:
        await check_written(there, ids)


async def test_a_cell_whose_server_is_lost_opens_at_its_copy_when_an_operator_says_so_and_counts_a_loss(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_logical_server() as (lost, elsewhere):
        place = await begin_elsewhere(made, elsewhere)
        ids = list[int]()
        await write(place.old, ids)
        with monkeypatch.context() as patch:
            kill(patch, cell_copy, "subscribe", {})
            with pytest.raises(KilledError):
                await place.move(makes_tables=False)
        await lost.stop()
        async with place.moving() as move:
            for end, said in (
                (cancel_move, "does not answer"),
                (take_over, "the copy is not whole"),
            ):
                with pytest.raises(InstallationError, match=said):
                    await end(move, cells.NAME)
        await lost.start()
        # Nobody has seen whether it has forgotten something.
        with pytest.raises(InstallationError, match="nothing has served it since"):
            await place.move(makes_tables=False)
        await lost.stop()
    with pytest.raises(InstallationError, match="the copy does not open by itself"):
        await place.move(makes_tables=False)
    assert (await place.read_row()).state == "MOVING"
    with monkeypatch.context() as patch:
        kill(patch, cell_ids, "skip_ids", {})
        async with place.moving() as move:
            with pytest.raises(KilledError):
                await take_over(move, cells.NAME)
    # A move that failed at its last step has noted the target's server already.
    async with open_owner(place.new) as there:
        await installation_store.note_server(there, await installation_store.read_server(there), has_come=True)
    async with place.moving() as move:
        assert (await take_over(move, cells.NAME)).address == place.target
    await write(place.new, ids)
    async with open_owner(place.new) as there:
        await check_written(there, ids)
        assert ids[-1] > 1000
        await ServerWatch().begin(there)
        [loss] = await loss_store.find_losses(there)
        assert loss.reason.startswith("the cell was opened in this database, and may have gone on in another one")


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_whether_the_row_was_changed_is_looked_at_where_its_commit_was_lost(
    made: Place, cut: Literal["before", "after"]
) -> None:
    await made.begin()
    begun = await made.read_row()
    async with open_wire(made.home) as (wire, near):
        by_wire = f"{made.home.owner_url.partition('?')[0]}?{near.service_url.partition('?')[2]}"
        place = structs.replace(made, home=structs.replace(made.home, owner_url=by_wire))
        async with place.moving(makes_tables=False) as move:
            # It is the first COMMIT: the row says already that the cell is being moved.
            wire.cuts.append(cut)
            assert (await cell_move.move_cell(move, cells.NAME, made.target)).address == made.target
        assert wire.cuts_count == 1
    assert not await made.has_database(begun.database)
    await refuse_leftovers(made)


async def test_what_cannot_be_moved_is_refused_and_nothing_is_written(place: Place, made: Place) -> None:
    async def refusal(name: str, address: str) -> str:
        async with place.moving() as move:
            with pytest.raises((InstallationError, errors.NotFound)) as refused:
                await cell_move.move_cell(move, name, address)
        return str(refused.value)

    assert "the home cell is where the settings say" in await refusal("home", place.target)
    assert "there is no cell 'third'" in await refusal("third", place.target)
    for addresses, said in (
        (place.home, "is the home cell's own database"),
        (made.new, "has tables of pixconnect already"),
        (postgres.in_database(place.server, "nowhere"), "there is no such database"),
    ):
        assert said in await refusal(cells.NAME, cells.address_of(addresses))
    assert (await place.read_row()).state == "OPEN"
    async with open_owner(place.old) as there:
        # The target would not know what the source has forgotten.
        await installation_store.note_server(there, await installation_store.read_server(there), has_come=True)
        an_hour_ago = "started_at - interval '1 hour'"
        for column, value in (("elsewhere_since", "now()"), ("started_at", an_hour_ago), ("system_identifier", "1")):
            await there.execute(f"update installation set {column} = {value}")
            assert "nothing has served it since" in await refusal(cells.NAME, place.target), column
            await there.execute("update installation set elsewhere_since = null")
    async with open_owner(place.home) as home:
        async with cell_store.adding_cells(home):
            assert "somebody else is adding or moving a cell" in await refusal(cells.NAME, place.target)
        await home.execute("update cell set state = 'OPENING'")
        assert "is not open yet" in await refusal(cells.NAME, place.target)


async def test_a_cell_that_is_being_moved_is_moved_to_one_place_and_migrated_afterwards(made: Place) -> None:
    await made.begin()
    async with made.moving() as move:
        with pytest.raises(InstallationError, match="go on there, or take it back"):
            await cell_move.move_cell(move, cells.NAME, cells.address_of(made.home))
        with pytest.raises(InstallationError, match="the server of the cell second answers"):
            await take_over(move, cells.NAME)


async def test_a_move_that_was_cut_off_is_found_and_goes_on_only_with_what_it_had(
    made: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made.begin()
    with monkeypatch.context() as patch:
        kill(patch, cell_move, "_catch_up", {})
        with pytest.raises(KilledError):
            await made.move(makes_tables=False)
    settings = cells.home_settings(made.home)
    async with cells.operating_at_home(settings) as operator:
        [finding] = await cell_opening.look_for_faults(operator, settings, await made.read_row())
    assert "its move to " in finding
    assert "was cut off: run `pixconnect cell move second --to " in finding
    # A newer program has steps that the copy would lack.
    await cells.execute(made.old, "drop schema verify cascade")
    with pytest.raises(CommandError, match=r"the cell second: the cell is being moved.* drop the publication "):
        await migrate.bring_all_up_to_date(settings)
    await cells.execute(
        made.new, "insert into pixconnect.schema_version (version, name, checksum) values (999, '', '')"
    )
    async with open_owner(made.old) as there:
        await schema_history.migrate(there, "verify", migrations.read_migrations("pixconnect.store.proof"))
    with pytest.raises(NewerSchemaError, match="is at version 999"):
        await made.move()
    await cells.execute(made.new, "delete from pixconnect.schema_version where version > 155")
    with pytest.raises(SchemaError, match="lack steps of this version"):
        await made.move()
    assert (await made.cancel()).state == "OPEN"
