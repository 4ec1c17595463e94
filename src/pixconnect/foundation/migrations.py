"""Brings a schema up to date: numbered SQL files, each applied once, in order, in one transaction, under a lock.

Two processes that start together may both call ``migrate``: one waits for the other and finds nothing left to do.
"""

from collections.abc import Sequence
from importlib.resources import files

import asyncpg
from msgspec import Struct

LOCK_KEY = 0x7069_7863  # "pixc": one migration of this database at a time

_CREATE_LEDGER_OF_VERSIONS = """
create schema if not exists {schema};
create table if not exists {schema}.schema_version (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default clock_timestamp()
);
"""


class NewerSchemaError(Exception):
    """The database was brought up to date by a newer version of the program."""


class Migration(Struct, frozen=True, kw_only=True):
    """One step of a schema.

    Attributes:
        version: Counts up from 1 without gaps.
        name: The file's name without its ending.
        sql: What it runs.
    """

    version: int
    name: str
    sql: str


def read_migrations(package: str) -> list[Migration]:
    """The ``NNNN_name.sql`` files of a package's ``migrations`` folder, in order."""
    folder = files(package) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    migrations = [
        Migration(version=int(name[:4]), name=name[5:-4], sql=(folder / name).read_text(encoding="utf-8"))
        for name in names
    ]
    if [migration.version for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise AssertionError(f"migrations of {package} are not numbered 1, 2, 3...: {names}")
    return migrations


async def migrate(connection: asyncpg.Connection, schema: str, migrations: Sequence[Migration]) -> list[Migration]:
    """Apply what is missing.

    Args:
        connection: As the schema's owner, with no transaction open.
        schema: Where the tables live; made if missing.
        migrations: All of them, in order.

    Returns:
        The ones that were applied now.

    Raises:
        NewerSchemaError: The database knows a version that we do not.
    """
    async with connection.transaction():
        await connection.execute("set local statement_timeout = 0; set local lock_timeout = 0")
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK_KEY)
        await connection.execute(_CREATE_LEDGER_OF_VERSIONS.format(schema=schema))
        await connection.execute(f"set local search_path = {schema}")
        known = await connection.fetchval("select coalesce(max(version), 0) from schema_version")
        if known > len(migrations):
            raise NewerSchemaError(
                f"the schema {schema} is at version {known} and this program knows versions up to {len(migrations)}: "
                "run the newer program, or use another database"
            )
        missing = [migration for migration in migrations if migration.version > known]
        for migration in missing:
            await connection.execute(migration.sql)
            await connection.execute(
                "insert into schema_version (version, name) values ($1, $2)", migration.version, migration.name
            )
        return missing
