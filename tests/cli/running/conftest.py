"""What verbs about cells act on: a home cell, and databases beside it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.usecases.running import installation
from support import cells, postgres
from support.postgres import Addresses


@pytest.fixture
async def empty(postgres_server: Addresses) -> AsyncIterator[Addresses]:
    async with cells.beside(postgres_server, postgres.make_empty) as made:
        yield made


@pytest.fixture
async def tables(postgres_server: Addresses) -> AsyncIterator[Addresses]:
    """A database with all tables, whose mode nobody has said."""
    async with cells.beside(postgres_server) as made:
        yield made


@pytest.fixture
async def home(database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    await installation.check_mode(connection, "sandbox")
    try:
        yield connection
    finally:
        await connection.close()
