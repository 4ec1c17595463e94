"""Databases that are cells, or are to be: beside the home cell's on the server of the tests."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
from msgspec import structs

from pixconnect.assembly import operators
from pixconnect.config import Settings
from pixconnect.domain.running.known_cell import KnownCell, parse_address
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running.installation import Mode
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.running import installation, known_cells
from support import postgres
from support.identity import SECRET_KEY
from support.postgres import Addresses

NUMBER: Final = 1
"""Of the cell beside the home cell."""
NAME: Final = "second"
_serial: Final = count(1)


def address_of(addresses: Addresses) -> str:
    """Where a database is, as ``pixconnect cell add`` wants it: without a login."""
    parts = urlsplit(addresses.service_url)
    return parse_address(f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}?{parts.query}")


def home_settings(home: Addresses, **changes: Any) -> Settings:
    """Those of an installation whose home cell this database is."""
    key = base64.urlsafe_b64encode(SECRET_KEY).decode().rstrip("=")
    return Settings(database_url=home.service_url, owner_database_url=home.owner_url, secret_key=key, **changes)


@asynccontextmanager
async def operating_at_home(settings: Settings) -> AsyncGenerator[Operator]:
    async with operators.open_operator(settings, connections_max=2) as operator:
        yield operator


@asynccontextmanager
async def beside(
    server: Addresses, make: Callable[[Addresses, str], Awaitable[Addresses]] = postgres.make_copy
) -> AsyncGenerator[Addresses]:
    """A database of its own on the server of the tests: with all tables and no mode, or empty by ``make_empty``."""
    name = f"beside_{next(_serial)}_{id(make) % 10_000}"
    made = await make(server, name)
    try:
        yield made
    finally:
        connection = await asyncpg.connect(server.owner_url)
        try:
            await connection.execute(f"drop database {name} with (force)")
        finally:
            await connection.close()


async def know(home: Connection, name: str, addresses: Addresses, number: int = NUMBER) -> KnownCell:
    """Let the home cell know an open cell, whose database says nothing yet."""
    await home.execute(
        "insert into cell (number, name, address, state) values ($1, $2, $3, 'OPEN')",
        number,
        name,
        address_of(addresses),
    )
    known = await cell_store.find(home, name)
    assert known is not None
    return known


@asynccontextmanager
async def _owning(addresses: Addresses) -> AsyncGenerator[Any]:
    """The owner's connection to a database."""
    connection = await asyncpg.connect(addresses.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        yield connection
    finally:
        await connection.close()


async def execute(addresses: Addresses, statements: str) -> None:
    async with _owning(addresses) as connection:
        await connection.execute(statements)


async def fetch_value(addresses: Addresses, query: str) -> Any:
    async with _owning(addresses) as connection:
        return await connection.fetchval(query)


async def lead_to(home: Addresses, addresses: Addresses) -> None:
    """Let the home cell say that the cell beside it is at another address."""
    async with _owning(home) as connection:
        await connection.execute("update cell set address = $2 where number = $1", NUMBER, address_of(addresses))


async def let_claim(addresses: Addresses, known: KnownCell, mode: Mode = "sandbox") -> None:
    """Let the tables of a database say that they are this cell."""
    async with _owning(addresses) as connection:
        await known_cells.claim_tables(connection, mode, known)


async def add_cell(
    home: Addresses, other: Addresses, *, has_other_identity: bool = False, mode: Mode = "sandbox"
) -> None:
    """Make the other database a cell that the home cell knows, as ``cell add`` does."""
    async with _owning(home) as connection:
        await installation.check_mode(connection, mode)
        known = await know(connection, NAME, other)
    await let_claim(other, structs.replace(known, identity=uuid4()) if has_other_identity else known, mode)
