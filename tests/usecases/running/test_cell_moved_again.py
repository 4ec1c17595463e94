"""What an earlier move has left at its servers, and what else happens there, takes nothing from a move and does not stop it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from pixconnect.store.running import cell_copy
from support import postgres
from support.cell_places import READ, Place, kill, open_owner, refuse_leftovers, serial, write
from support.dying import KilledError

pytestmark = pytest.mark.long

_NOBODY = "postgresql://127.0.0.1:1/nobody"
_ALL_SLOTS = "select slot_name::text, active_pid from pg_replication_slots"


async def go_elsewhere(place: Place) -> Place:
    """The same, to be moved on from its target."""
    made = await postgres.make_copy(place.server, f"made_{next(serial)}")
    return structs.replace(place, new=made)


async def move_until(place: Place, monkeypatch: pytest.MonkeyPatch, name: str, *, before: bool = False) -> None:
    with monkeypatch.context() as patch:
        kill(patch, cell_copy, name, {"before": before})
        with pytest.raises(KilledError):
            await place.move(makes_tables=False)


@asynccontextmanager
async def a_stale_copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The copy of a move that was taken back while its server was away, and which is back."""
    await place.begin()
    await move_until(place, monkeypatch, "write_comparison")
    async with open_owner(place.home) as home, open_owner(place.new) as stale:
        await home.execute("update cell set other_address = $1", _NOBODY)
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
        assert await stale.fetch(READ) == []
    async with open_owner(place.new) as there:
        assert [each["id"] for each in await there.fetch(READ)] == ids


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
    await move_until(place, monkeypatch, "is_published", before=True)
    await refuse_leftovers(structs.replace(place, new=place.old))
    assert (await place.move()).address == place.target
    await refuse_leftovers(place)
    await write(place.new, ids)
    async with open_owner(place.new) as there:
        assert [each["id"] for each in await there.fetch(READ)] == ids


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
