"""Applies a schema's steps: its baseline to a new database, and migrations to one that an earlier release made.

A package's ``schema`` folder holds the baseline: SQL files that are run in the order of their names and make all tables. Other
packages may add a file, such as ``schema.sql``, which is run after them. Its ``migrations`` folder, which exists once a
release needs one, holds numbered files that bring an earlier baseline up to this one. The first of a release begins with
``-- from <SHA-256 of the baseline before it>``.

A step is one transaction together with its row in ``schema_version``. A file marked ``-- outside a transaction`` runs statement
by statement, so that indexes are made and constraints validated while others write. One marked ``-- in batches`` is a single
statement that processes some rows behind ``$1`` and returns the last id: it runs again from there, each time in a transaction
that also records its progress, until it returns null. Each kind may be killed, and the next run continues.

Compares the applied steps of a schema with those of this program.

``schema_version`` has a checksum of each applied step. Tables with another history may look the same and are not, so every
process refuses them before it writes anything.
"""

import asyncio
import functools
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import asyncpg
from msgspec import Struct

from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

# "pixc" in ASCII. The lock is for the whole database.
LOCK_KEY: Final = 0x7069_7863
BASELINE: Final = "baseline"
OUTSIDE_A_TRANSACTION: Final = "-- outside a transaction\n"
IN_BATCHES: Final = "-- in batches\n"

_LOCK_WAIT_S = 0.1
_TABLE_LOCK_TIMEOUT = "1s"
_TABLE_LOCK_TRIES_MAX = 30
_TABLE_LOCK_PAUSE_S = 0.5

_NO_FUNCTION_IS_PUBLIC = "revoke execute on all functions in schema {schema} from public"
_NOTE = "insert into schema_version (version, name, checksum) values ($1, $2, $3)"


class SchemaError(Exception):
    """The tables are not those of this program; the message states the reason and the remedy."""


class NewerSchemaError(SchemaError):
    """A newer version of the program has migrated the database."""


class TablesAreHeldError(SchemaError):
    """Another session holds a table that a step changes for too long."""


class Migration(Struct, frozen=True, kw_only=True):
    # Counts up without gaps; the first migration is 2. A baseline has the number of the last migration that it includes.
    version: int
    name: str  # the file's name without number and suffix, or ``baseline``
    sql: str

    @property
    def checksum(self) -> str:
        """Shows that a step was changed after it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def is_baseline(self) -> bool:
        return self.name == BASELINE

    @property
    def begins_from(self) -> str | None:
        """The checksum of the released baseline that it continues; only the first migration of a release has one."""
        found = _BEGINS_FROM.match(self.sql)
        return found[1] if found else None

    @property
    def is_outside_transaction(self) -> bool:
        return self._is_marked(OUTSIDE_A_TRANSACTION)

    @property
    def is_in_batches(self) -> bool:
        return self._is_marked(IN_BATCHES)

    def _is_marked(self, mark: str) -> bool:
        return _BEGINS_FROM.sub("", self.sql, count=1).startswith(mark)


_BEGINS_FROM = re.compile(r"\A-- from ([0-9a-f]{64})\n")


class Steps(Struct, frozen=True, kw_only=True):
    baseline: Migration
    migrations: Sequence[Migration] = ()

    def checksum_of_baseline(self, version: int) -> str | None:
        """The checksum of the baseline that a database of this version was made by; None if no release had that one."""
        if version == self.baseline.version:
            return self.baseline.checksum
        following = (step.begins_from for step in self.migrations if step.version == version + 1)
        return next(following, None)


@functools.cache
def read_steps(package: str, others: Sequence[str] = (), part: str = "schema.sql") -> Steps:
    """Read a package's ``schema`` and ``migrations`` folders; other packages may add to its baseline by a file ``part``."""
    folder = files(package)
    added = [files(other) / part for other in others]
    texts = [text for _, text in _read_folder(folder / "schema")]
    baseline = "\n".join([*texts, *(file.read_text(encoding="utf-8") for file in added if file.is_file())])
    migrations = [
        Migration(version=int(name[:4]), name=name[5:-4], sql=text) for name, text in _read_folder(folder / "migrations")
    ]
    newest = len(migrations) + 1
    is_numbered = [step.version for step in migrations] == [*range(2, newest + 1)]
    errors.ensure(is_numbered, f"migrations of {package} are not numbered 2, 3, 4...")
    return Steps(baseline=Migration(version=newest, name=BASELINE, sql=baseline), migrations=migrations)


def _read_folder(folder: Traversable) -> list[tuple[str, str]]:
    if not folder.is_dir():
        return []
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return [(entry.name, entry.read_text(encoding="utf-8")) for entry in found]


async def apply(connection: asyncpg.Connection, schema: str, migration: Migration) -> None:
    """Run a step and record it; the schema must be first in ``search_path``. ``TablesAreHeldError`` if a lock prevents it."""
    if migration.is_outside_transaction:
        for statement in split_statements(migration.sql):
            await _run_outside(connection, statement)
        await _note(connection, migration)
        return
    run = _run_batch if migration.is_in_batches else _run_whole
    while not await _run_within_lock_timeout(connection, schema, migration, run):
        pass


_Run = Callable[[asyncpg.Connection, str, Migration], Awaitable[bool]]


async def _run_within_lock_timeout(connection: asyncpg.Connection, schema: str, migration: Migration, run: _Run) -> bool:
    # A statement that waits for a table's lock blocks all later ones. So it gives up soon, yields to them and retries.
    for _ in range(_TABLE_LOCK_TRIES_MAX):
        try:
            async with connection.transaction():
                await connection.execute(f"set local lock_timeout = '{_TABLE_LOCK_TIMEOUT}'")
                is_over = await run(connection, schema, migration)
                if is_over:
                    await _note(connection, migration)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(_TABLE_LOCK_PAUSE_S)
        else:
            return is_over
    raise TablesAreHeldError(
        f"step {migration.version:04d} of the schema {schema} waits for a locked table: end long transactions "
        "(see pg_stat_activity) and run `pixconnect migrate` again"
    )


async def _run_whole(connection: asyncpg.Connection, schema: str, migration: Migration) -> bool:
    if migration.is_baseline:
        # Functions are next to their tables, and before others that call them.
        await connection.execute(f"create schema if not exists {schema}; set local check_function_bodies = off")
    await connection.execute(migration.sql)
    # PostgreSQL allows every role to execute a new function. Triggers need no grant; functions that roles call get one.
    await connection.execute(_NO_FUNCTION_IS_PUBLIC.format(schema=schema))
    return True


# There only while such a step is under way.
_CREATE_PROGRESS = "create table if not exists schema_progress (version integer primary key, last_id bigint not null)"
_READ_PROGRESS = "select coalesce((select last_id from schema_progress where version = $1), 0)"
_NOTE_PROGRESS = """
    insert into schema_progress (version, last_id) values ($1, $2)
    on conflict (version) do update set last_id = excluded.last_id
"""
_DROP_PROGRESS = "drop table schema_progress"


async def _run_batch(connection: asyncpg.Connection, schema: str, migration: Migration) -> bool:
    await connection.execute(_CREATE_PROGRESS)
    last_id = await connection.fetchval(_READ_PROGRESS, migration.version)
    reached_id = await connection.fetchval(migration.sql, last_id)
    if reached_id is None:
        await connection.execute(_DROP_PROGRESS)
        return True
    what = f"step {migration.version:04d} of the schema {schema} does not go on behind {last_id}"
    errors.ensure(reached_id > last_id, what)
    await connection.execute(_NOTE_PROGRESS, migration.version, reached_id)
    return False


async def _note(connection: asyncpg.Connection, migration: Migration) -> None:
    await connection.execute(_NOTE, migration.version, migration.name, migration.checksum)


_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_CREATE_INDEX = re.compile(r"create (?:unique )?index concurrently (\w+) on ")
_OTHER_STATEMENT = re.compile(r"alter table \w+ validate constraint \w+$|drop index concurrently if exists \w+$")


def split_statements(sql: str) -> list[str]:
    """Split a step that runs outside a transaction into its statements."""
    statements = [text.strip() for text in _COMMENT.sub("", sql).split(";")]
    statements = [" ".join(statement.split()) for statement in statements if statement]
    # Only statements that can be repeated after the step was cut off, and that do not block writers.
    for statement in statements:
        may_run = _CREATE_INDEX.match(statement) or _OTHER_STATEMENT.match(statement)
        errors.ensure(may_run, f"this does not run outside a transaction: {statement}")
    return statements


async def _run_outside(connection: asyncpg.Connection, statement: str) -> None:
    # An earlier run may have made the index already, or left an invalid one.
    if creation := _CREATE_INDEX.match(statement):
        name = creation[1]
        is_valid = await connection.fetchval("select indisvalid from pg_index where indexrelid = to_regclass($1)", name)
        if is_valid:
            return
        if is_valid is False:
            await connection.execute(f"drop index concurrently {name}")
    await connection.execute(statement)


@asynccontextmanager
async def alone(connection: asyncpg.Connection, schema: str) -> AsyncGenerator[None]:
    """Hold the migration lock, with the schema first in ``search_path`` and no timeouts; others wait and find nothing to do."""
    # Polled, because waiting would deadlock: an index that is made concurrently waits for every older statement, and so for one
    # that waits for this lock.
    while not await connection.fetchval("select pg_try_advisory_lock($1)", LOCK_KEY):  # noqa: ASYNC110 - another process holds it
        await asyncio.sleep(_LOCK_WAIT_S)
    try:
        await connection.execute(f"set statement_timeout = 0; set lock_timeout = 0; set search_path = {schema}")
        yield
    finally:
        if not connection.is_closed():
            await connection.execute("reset statement_timeout; reset lock_timeout; reset search_path")
            await connection.fetchval("select pg_advisory_unlock($1)", LOCK_KEY)


_ADVICE: Final = (
    "nothing was changed: use the version that made them, or make new ones with `PIXCONNECT_HOME=FOLDER pixconnect run` "
    "(with PIXCONNECT_DATABASE_URL, name an empty database)"
)


class ForeignHistoryError(SchemaError):
    """Other steps than this program's have made the tables."""


class OtherVersionError(ForeignHistoryError):
    """By their record, which no restore in progress lacks: this program can never use them."""


class OutdatedSchemaError(SchemaError):
    """The schema lacks steps of this program."""


class Applied(Struct, frozen=True):
    version: int
    name: str
    checksum: str | None  # none where an early development version made the tables, which noted none


async def migrate(connection: asyncpg.Connection, schema: str, steps: Steps) -> list[Migration]:
    """Apply missing steps as the schema's owner, and return those; the schema is made if there is none.

    Raises:
        ForeignHistoryError: Other steps have made the tables.
        NewerSchemaError: The database has had steps that we do not know.
        TablesAreHeldError: Another session holds a table for too long.
    """
    async with alone(connection, schema):
        missing = await list_missing(connection, schema, steps)
        for step in missing:
            await apply(connection, schema, step)
        return missing


async def refuse_other_tables(connection: Connection, schema: str, steps: Steps) -> None:
    """Check that the tables are those of this program, whose steps these are.

    Raises:
        ForeignHistoryError: Other steps have made them.
        NewerSchemaError: They have had steps that we do not know.
        OutdatedSchemaError: There are no tables, or they lack steps.
    """
    if await list_missing(connection, schema, steps):
        raise OutdatedSchemaError(f"the tables of the schema {schema} are missing or old: run `pixconnect migrate`")


_HAS_RELATIONS: Final = "select exists (select from pg_class where relnamespace = to_regnamespace($1))"


async def list_missing(connection: Connection, schema: str, steps: Steps) -> list[Migration]:
    """The steps that the tables have not had yet; errors as ``migrate``, and nothing is changed."""
    if applied := await _read(connection, schema):
        return _judge(schema, steps, applied)
    if await connection.fetchval(_HAS_RELATIONS, schema):
        raise ForeignHistoryError(
            f"the schema {schema} has tables and no record of a baseline; nothing was changed: drop the schema, or make new "
            "tables with `PIXCONNECT_HOME=FOLDER pixconnect run` (with PIXCONNECT_DATABASE_URL, name an empty database)"
        )
    return [steps.baseline]


def _judge(schema: str, steps: Steps, applied: Sequence[Applied]) -> list[Migration]:
    first, newest = applied[0], applied[-1]
    if first.name != BASELINE:
        raise OtherVersionError(f"the tables of the schema {schema} were made by a development version; {_ADVICE}")
    if newest.version > steps.baseline.version:
        raise NewerSchemaError(
            f"the schema {schema} is at version {newest.version} and this program knows versions up to "
            f"{steps.baseline.version}: run the newer program, or use another database"
        )
    expected = [step for step in steps.migrations if first.version < step.version <= newest.version]
    if first.checksum != steps.checksum_of_baseline(first.version):
        raise OtherVersionError(
            f"the tables of the schema {schema} were made by another version, from which no migration leads here; {_ADVICE}"
        )
    if [(step.version, step.checksum) for step in applied[1:]] != [(step.version, step.checksum) for step in expected]:
        raise OtherVersionError(f"the schema {schema} has had other migrations than this program's; {_ADVICE}")
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
