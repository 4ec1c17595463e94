"""Compares the migrations that a schema has had with those of this program.

``schema_version`` has a checksum of each applied step. Tables with another history may look the same and are not, so every
process refuses them before it writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg
from msgspec import Struct

from pixconnect.foundation import migrations as steps
from pixconnect.foundation.migrations import Migration, NewerSchemaError, SchemaError
from pixconnect.foundation.pool import Connection

_CREATE: Final = """
    create schema if not exists {schema};
    create table if not exists {schema}.schema_version (
        version integer primary key,
        name text not null,
        checksum text not null,
        applied_at timestamptz not null default clock_timestamp()
    );
"""
_READ: Final = "select version, checksum from schema_version order by version"
_ADVICE: Final = (
    "use the program that made these tables, or begin with another home or an empty database; nothing was changed"
)


class ForeignHistoryError(SchemaError):
    """Other steps than this program's have made the tables."""


class OutdatedSchemaError(SchemaError):
    """The schema lacks steps of this program."""


class Applied(Struct, frozen=True):
    version: int
    checksum: str


async def migrate(connection: asyncpg.Connection, schema: str, migrations: Sequence[Migration]) -> list[Migration]:
    """Apply missing steps as the schema's owner, and return those; the schema is made if there is none.

    Raises:
        ForeignHistoryError: Other steps have made the tables.
        NewerSchemaError: The database has had steps that we do not know.
        TablesAreHeldError: Somebody holds a table for too long.
    """
    async with steps.alone(connection, schema):
        await connection.execute(_CREATE.format(schema=schema))
        if not await _has_checksums(connection):
            await _adopt(connection, schema, migrations)
        applied = await _read(connection)
        judge(schema, migrations, applied)
        missing = list(migrations[len(applied) :])
        for migration in missing:
            await steps.apply(connection, schema, migration)
        return missing


async def refuse_other_tables(connection: Connection, schema: str, package: str) -> None:
    """Check that the tables are those of this program, whose migrations are in ``package``.

    Raises:
        ForeignHistoryError: Other steps have made them.
        NewerSchemaError: They have had steps that we do not know.
        OutdatedSchemaError: They lack steps.
        asyncpg.UndefinedTableError: There are no tables.
    """
    if await list_missing(connection, schema, steps.read_migrations(package)):
        raise OutdatedSchemaError(f"the tables of the schema {schema} are old: run `pixconnect migrate`")


async def list_missing(connection: Connection, schema: str, migrations: Sequence[Migration]) -> list[Migration]:
    """The steps that the tables have not had yet; errors as ``refuse_other_tables``, but for those that only lack steps."""
    try:
        applied = await _read(connection)
    # Tables from before there were checksums: they count as having had no step.
    except asyncpg.UndefinedColumnError:
        applied = []
    judge(schema, migrations, applied)
    return list(migrations[len(applied) :])


def judge(schema: str, migrations: Sequence[Migration], applied: Sequence[Applied]) -> None:
    """Compare applied steps with ours: ``ForeignHistoryError`` if they differ, ``NewerSchemaError`` if there are more."""
    newest = applied[-1].version if applied else 0
    if newest > len(migrations):
        raise NewerSchemaError(
            f"the schema {schema} is at version {newest} and this program knows versions up to {len(migrations)}: "
            "run the newer program, or use another database"
        )
    known = {step.version: step.checksum for step in applied}
    for migration in migrations[:newest]:
        if known.get(migration.version) != migration.checksum:
            what = "was made by another" if migration.version in known else "lacks"
            raise ForeignHistoryError(
                f"the schema {schema} {what} step {migration.version:04d} ({migration.name}): {_ADVICE}"
            )


async def _read(connection: Connection) -> list[Applied]:
    return [Applied(row["version"], row["checksum"]) for row in await connection.fetch(_READ)]


_HAS_CHECKSUMS: Final = """
    select exists (select from pg_attribute where attrelid = 'schema_version'::regclass and attname = 'checksum')
"""


async def _has_checksums(connection: asyncpg.Connection) -> bool:
    return await connection.fetchval(_HAS_CHECKSUMS)


_ADD_CHECKSUMS: Final = "alter table schema_version add column checksum text"
_NOTE_CHECKSUM: Final = "update schema_version set checksum = $2 where version = $1"
_DEMAND_CHECKSUMS: Final = "alter table schema_version alter column checksum set not null"


async def _adopt(connection: asyncpg.Connection, schema: str, migrations: Sequence[Migration]) -> None:
    # Tables from before there were checksums get ours only if our steps make the same tables: we make them anew and compare.
    newest = await connection.fetchval("select coalesce(max(version), 0) from schema_version")
    judge(schema, migrations, [Applied(newest, "")] if newest > len(migrations) else [])
    found = await _describe(connection, schema)
    expected = await _describe_anew(connection, f"{schema}_made_anew", migrations[:newest])
    if found not in expected or await connection.fetchval("select count(*) from schema_version") != newest:
        raise ForeignHistoryError(
            f"the schema {schema} was made by an earlier program that noted no checksums, and is not what its steps make "
            f"today: {_ADVICE}"
        )
    async with connection.transaction():
        await connection.execute(_ADD_CHECKSUMS)
        await connection.executemany(_NOTE_CHECKSUM, [(step.version, step.checksum) for step in migrations[:newest]])
        await connection.execute(_DEMAND_CHECKSUMS)


# A dump has PostgreSQL's own words for a check, and those read back may be written with fewer parentheses.
_REPEAT_CHECKS: Final = """
    select format('alter table %1$I drop constraint %2$I, add constraint %2$I %3$s', relname, conname,
        pg_get_constraintdef(pg_constraint.oid)) as statement
    from pg_constraint join pg_class on pg_class.oid = conrelid
    where relnamespace = $1::text::regnamespace and contype = 'c' and not relispartition
"""


async def _describe_anew(
    connection: asyncpg.Connection, schema: str, migrations: Sequence[Migration]
) -> list[list[str]]:
    """What the steps make: as they make it, and as it is restored from a dump."""
    # Rolled back, so that nobody ever sees this schema.
    trial = connection.transaction()
    await trial.start()
    try:
        await connection.execute(_CREATE.format(schema=schema))
        await connection.execute(f"set local search_path = {schema}")
        for migration in migrations:
            await connection.execute(steps.in_schema(migration.sql, schema))
        made = await _describe(connection, schema)
        for row in await connection.fetch(_REPEAT_CHECKS, schema):
            await connection.execute(row["statement"])
        return [made, await _describe(connection, schema)]
    finally:
        await trial.rollback()


# Partitions come and go while the service runs, and `not null` stands among the constraints since PostgreSQL 18 only. All else
# that decides what may stand in the tables, and who may do what with them, is told.
_DESCRIBE: Final = r"""
    with own as (
        select oid, relname, relkind, relacl, relowner from pg_class
        where relnamespace = $1::text::regnamespace and relkind in ('r', 'p', 'S') and not relispartition
            and relname <> 'schema_version'
    ),
    line as (
        select format('column %s.%s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull,
            pg_get_expr(adbin, adrelid)) as text
        from own join pg_attribute on attrelid = own.oid and attnum > 0 and not attisdropped
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where relkind <> 'S'
        union all
        select format('constraint %s.%s %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
        from own join pg_constraint on conrelid = own.oid where contype <> 'n'
        union all
        select pg_get_indexdef(indexrelid) from own join pg_index on indrelid = own.oid
        union all
        select pg_get_triggerdef(pg_trigger.oid) from own join pg_trigger on tgrelid = own.oid where not tgisinternal
        union all
        select pg_get_functiondef(oid) from pg_proc where pronamespace = $1::text::regnamespace
        union all
        select format('sequence %s %s', relname, seqincrement) from own join pg_sequence on seqrelid = own.oid
        union all
        select format('enum %s %s', typname, enumlabel) from pg_type join pg_enum on enumtypid = pg_type.oid
        where typnamespace = $1::text::regnamespace
        union all
        select format('%s may %s %s', grantee::regrole, privilege_type, relname)
        from own cross join aclexplode(relacl) where grantee <> relowner
    )
    select regexp_replace(text, '\m' || $1::text || '\M\.?', '', 'g') as text from line order by 1
"""


async def _describe(connection: asyncpg.Connection, schema: str) -> list[str]:
    return [row["text"] for row in await connection.fetch(_DESCRIBE, schema)]
