"""Servers on which a cell can be moved."""

from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from support import cells, postgres
from support.cell_places import Place, serial
from support.logical_postgres import open_logical_server
from support.postgres import Addresses


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Addresses]:
    async with open_logical_server() as (_, addresses):
        yield addresses


@pytest.fixture
async def place(server: Addresses) -> Place:
    number = next(serial)
    home, old = [await postgres.make_copy(server, f"{name}_{number}") for name in ("home", "old")]
    await cells.add_cell(home, old)
    return Place(server=server, home=home, old=old, new=await postgres.make_empty(server, f"new_{number}"))


@pytest.fixture
async def made(place: Place) -> Place:
    """The same with the tables at the target."""
    return structs.replace(place, new=await postgres.make_copy(place.server, f"made_{next(serial)}"))
