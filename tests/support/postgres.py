"""One PostgreSQL server a test run, and a copy of a migrated template database for each test that asks for one."""

import asyncio
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from pixconnect.foundation import migrations
from pixconnect.foundation.embedded_postgres import EmbeddedPostgres
from pixconnect.foundation.postgres_placement import Placement
from pixconnect.foundation.postgres_programs import PostgresVersion

TEMPLATE = "pixconnect_template"
SCHEMAS = {"pixconnect": "pixconnect.store", "sandbox": "pixconnect.sandbox"}


class Addresses(Struct, frozen=True, kw_only=True):
    """How to reach a database.

    Attributes:
        owner_url: As the superuser.
        service_url: As the login that owns nothing; a pool takes its group role.
    """

    owner_url: str
    service_url: str


class Server:
    """The run's server: forgetful, and gone with the run."""

    def __init__(self, version: PostgresVersion) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="pixconnect-tests-"))
        self._home.chmod(0o711)  # so that, as root, the server's own user gets in
        self._postgres = EmbeddedPostgres(self._home, version=version, connections_max=400, durable=False)

    def start(self) -> Addresses:
        asyncio.run(self._start())
        return Addresses(owner_url=self._postgres.owner_url, service_url=self._postgres.login_url)

    def stop(self) -> None:
        asyncio.run(self._postgres.stop())
        shutil.rmtree(self._home, ignore_errors=True)

    async def _start(self) -> None:
        await self._postgres.start()
        await make_template(self._postgres.owner_url)


async def make_template(owner_url: str) -> None:
    """Make the database that every test's is a copy of."""
    await _execute(owner_url, f"create database {TEMPLATE}")
    connection = await asyncpg.connect(_in_database(owner_url, TEMPLATE))
    try:
        for schema, package in SCHEMAS.items():
            if (files(package) / "migrations").is_dir():
                await migrations.migrate(connection, schema, migrations.read_migrations(package))
    finally:
        await connection.close()


async def make_copy(server: Addresses, name: str) -> Addresses:
    # Copied file by file: through the write-ahead log, as is the default, takes three times as long.
    await _execute(server.owner_url, f"create database {name} template {TEMPLATE} strategy file_copy")
    return Addresses(owner_url=_in_database(server.owner_url, name), service_url=_in_database(server.service_url, name))


async def drop_copy(server: Addresses, name: str) -> None:
    await _execute(server.owner_url, f"drop database {name} with (force)")


def remove_home(folder: Path) -> None:
    """Remove a home, and what a server that could not enter it keeps elsewhere."""
    for record in folder.rglob("postgres.json"):
        placed = record.parent / msgspec.json.decode(record.read_bytes(), type=Placement).folder
        shutil.rmtree(placed, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def execute(url: str, statement: str) -> None:
    """Run one statement, in a test that does not run on a loop of its own."""
    asyncio.run(_execute(url, statement))


async def _execute(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.execute(statement)
    finally:
        await connection.close()


def _in_database(url: str, name: str) -> str:
    return url.replace("@/pixconnect?", f"@/{name}?")
