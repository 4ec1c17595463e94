"""Compares the steps that a schema has had with those of this program.

``schema_version`` has a checksum of each applied step. Tables with another history may look the same and are not, so every
process refuses them before it writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg
from msgspec import Struct

from pixconnect.foundation import migrations
from pixconnect.foundation.migrations import Migration, NewerSchemaError, SchemaError, Steps
from pixconnect.foundation.pool import Connection

_ADVICE: Final = (
    "nothing was changed: use the version that made them, or make new ones with `PIXCONNECT_HOME=FOLDER pixconnect run` "
    "(with DATABASE_URL, name an empty database)"
)


class ForeignHistoryError(SchemaError):
    """Other steps than this program's have made the tables."""


class OutdatedSchemaError(SchemaError):
    """The schema lacks steps of this program."""


class Applied(Struct, frozen=True):
    version: int
    name: str
    checksum: str | None
    """None where an early development version made the tables, which noted none."""


async def migrate(connection: asyncpg.Connection, schema: str, steps: Steps) -> list[Migration]:
    """Apply missing steps as the schema's owner, and return those; the schema is made if there is none.

    Raises:
        ForeignHistoryError: Other steps have made the tables.
        NewerSchemaError: The database has had steps that we do not know.
        TablesAreHeldError: Another session holds a table for too long.
    """
    async with migrations.alone(connection, schema):
        missing = await list_missing(connection, schema, steps)
        for step in missing:
            await migrations.apply(connection, schema, step)
        return missing


async def refuse_other_tables(connection: Connection, schema: str, package: str) -> None:
    """Check that the tables are those of this program, whose steps are in ``package``.

    Raises:
        ForeignHistoryError: Other steps have made them.
        NewerSchemaError: They have had steps that we do not know.
        OutdatedSchemaError: There are no tables, or they lack steps.
    """
    if await list_missing(connection, schema, migrations.read_steps(package)):
        raise OutdatedSchemaError(f"the tables of the schema {schema} are missing or old: run `pixconnect migrate`")


_HAS_RELATIONS: Final = "select exists (select from pg_class where relnamespace = to_regnamespace($1))"


async def list_missing(connection: Connection, schema: str, steps: Steps) -> list[Migration]:
    """The steps that the tables have not had yet; errors as ``migrate``, and nothing is changed."""
    applied = await _read(connection, schema)
    if applied:
        return _judge(schema, steps, applied)
    if await connection.fetchval(_HAS_RELATIONS, schema):
        raise ForeignHistoryError(
            f"the schema {schema} has tables and no record of a baseline; nothing was changed: drop the schema, or make new "
            "tables with `PIXCONNECT_HOME=FOLDER pixconnect run` (with DATABASE_URL, name an empty database)"
        )
    return [steps.baseline]


def _judge(schema: str, steps: Steps, applied: Sequence[Applied]) -> list[Migration]:
    first, newest = applied[0], applied[-1]
    if first.name != migrations.BASELINE:
        raise ForeignHistoryError(f"the tables of the schema {schema} were made by a development version; {_ADVICE}")
    if newest.version > steps.baseline.version:
        raise NewerSchemaError(
            f"the schema {schema} is at version {newest.version} and this program knows versions up to "
            f"{steps.baseline.version}: run the newer program, or use another database"
        )
    expected = [step for step in steps.migrations if first.version < step.version <= newest.version]
    if first.checksum != steps.checksum_of_baseline(first.version):
        raise ForeignHistoryError(
            f"the tables of the schema {schema} were made by another version, from which no migration leads here; {_ADVICE}"
        )
    if [(step.version, step.checksum) for step in applied[1:]] != [(step.version, step.checksum) for step in expected]:
        raise ForeignHistoryError(f"the schema {schema} has had other migrations than this program's; {_ADVICE}")
    return [step for step in steps.migrations if step.version > newest.version]


_IS_THERE: Final = "select to_regclass($1) is not null"
# A row as JSON is null in a column that the table does not have.
_READ: Final = """
    select version, name, to_jsonb(schema_version) ->> 'checksum' as checksum from {schema}.schema_version order by version
"""


async def _read(connection: Connection, schema: str) -> list[Applied]:
    if not await connection.fetchval(_IS_THERE, f"{schema}.schema_version"):
        return []
    rows = await connection.fetch(_READ.format(schema=schema))
    return [Applied(row["version"], row["name"], row["checksum"]) for row in rows]
