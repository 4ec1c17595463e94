"""Migrations that have landed stay as they are, name no schema, and keep nobody waiting on a large table."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from msgspec import Struct

from pixconnect.foundation import migrations, schema_history
from support import postgres

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pixconnect"
CHECKSUMS = ROOT / "tests" / "vectors" / "migrations.json"

PACKAGES = {"pixconnect": "pixconnect.store", "sandbox": "pixconnect.sandbox", "verify": "pixconnect.store.proof"}
FIRST_FILES_COUNT = {"pixconnect": 4, "sandbox": 1, "verify": 1}
"""They named their schema, and made all tables: nothing was there to be locked."""

SMALL_TABLES = {
    "access_revision",
    "cell",
    "certificate_authority",
    "client",
    "clock",
    "database_loss",
    "installation",
    "institution_account",
    "schema_version",
    "signing_key",
    "slot_lease",
    "text_sweep",
    "worker",
}
"""The only tables of which a step may read or rewrite all rows while others wait. Any other may have ten million."""


@pytest.mark.parametrize("schema", PACKAGES)
def test_a_migration_that_has_landed_is_never_edited(schema: str) -> None:
    landed: dict[str, str] = json.loads(CHECKSUMS.read_text())[schema]
    found = {
        f"{migration.version:04d}_{migration.name}": migration.checksum
        for migration in migrations.read_migrations(PACKAGES[schema])
    }
    assert {name: found.get(name) for name in landed} == landed, "mend by a further migration"
    assert landed.keys() == found.keys(), f"add new ones to {CHECKSUMS.name}: {json.dumps(found, indent=4)}"


_NAMES_A_SCHEMA = re.compile(
    r"\b(?:pixconnect|sandbox|verify)\.[a-z_]+|\bschema (?:pixconnect|sandbox|verify)\b"
    r"|search_path *(?:=|to) *(?:pixconnect|sandbox|verify)"
    r"|(?:pixconnect|sandbox|verify)'::|nspname",
    re.IGNORECASE,
)


@pytest.mark.parametrize("schema", PACKAGES)
def test_no_migration_names_a_schema(schema: str) -> None:
    later = migrations.read_migrations(PACKAGES[schema])[FIRST_FILES_COUNT[schema] :]
    assert {migration.name: _NAMES_A_SCHEMA.findall(migration.sql) for migration in later} == {
        migration.name: [] for migration in later
    }


def test_no_statement_of_the_store_or_the_sandbox_names_a_schema() -> None:
    texts = re.compile(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
    words = re.compile(
        r"^\s*(?:select|insert|update|delete|with|alter|create|drop|listen|notify|lock)\b", re.IGNORECASE
    )
    named = [
        f"{path.relative_to(SOURCE)}: {found[0]}"
        for room in ("store", "sandbox", "usecases", "worker", "adapters")
        for path in sorted((SOURCE / room).rglob("*.py"))
        for text in texts.findall(path.read_text(encoding="utf-8"))
        if words.match(text[0] or text[1]) and (found := _NAMES_A_SCHEMA.findall(text[0] or text[1]))
    ]
    assert named == []


async def test_what_was_made_in_one_schema_names_no_other(database: postgres.Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url)
    try:
        await schema_history.migrate(connection, "another", migrations.read_migrations("pixconnect.store"))
        functions = await connection.fetch(
            "select proname, prosrc, proconfig, prosecdef from pg_proc where pronamespace = 'another'::regnamespace"
        )
        assert functions
        for function in functions:
            assert "pixconnect." not in function["prosrc"], function["proname"]
            assert not re.search(r"\btg_relid\b|::regclass|::oid", function["prosrc"]), function["proname"]
            if function["prosecdef"]:  # a temporary table must not be taken for one of ours
                assert "search_path=another, pg_temp" in function["proconfig"], function["proname"]
    finally:
        await connection.close()


class Look(Struct, frozen=True):
    """What a step has done to the large tables that were there before it."""

    held: set[str]
    """Writers wait for them until the step is over."""
    changed: set[str]
    """Rows of them may be changed: who writes the same rows waits until the step is over."""
    read: set[str]
    rewritten: set[str]

    def complaints(self) -> list[str]:
        held = ", ".join(sorted(self.held))
        return [
            *(f"{table} is rewritten" for table in sorted(self.rewritten)),
            *(f"{table} is read to change its rows" for table in sorted(self.changed & self.read)),
            *(f"{table} is read while {held} is held against writers" for table in sorted(self.read) if held),
        ]


_FILES = """
    select relation.relname as name, array_agg(array[file.oid::bigint, file.relfilenode::bigint]) as found
    from pg_class as relation
    join pg_class as file on file.oid = relation.oid
        or file.oid in (select indexrelid from pg_index where indrelid = relation.oid)
    where relation.relnamespace = $1::text::regnamespace and relation.relkind in ('r', 'p') group by 1
"""
_LOCKS = """
    select relname as name, array_agg(mode) as found from pg_locks join pg_class on pg_class.oid = relation
    where pid = pg_backend_pid() and relnamespace = $1::text::regnamespace group by 1
"""
_SCANS = """
    select relname as name, seq_scan + coalesce(idx_scan, 0) as found from pg_stat_xact_user_tables where schemaname = $1
"""
_HOLDING = {"ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"}


async def look_at(connection: asyncpg.Connection, schema: str, sql: str) -> Look:
    """Run a step in the transaction that is open, and look at what it did."""

    async def ask(query: str) -> dict[str, Any]:
        return {row["name"]: row["found"] for row in await connection.fetch(query, schema)}

    files_before, scans_before = await ask(_FILES), await ask(_SCANS)
    large = files_before.keys() - SMALL_TABLES
    parameters = [0] if sql.startswith(migrations.IN_BATCHES) else []
    await connection.execute(migrations.in_schema(sql, schema), *parameters)
    files, scans, locks = await ask(_FILES), await ask(_SCANS), await ask(_LOCKS)
    return Look(
        held={table for table in large if _HOLDING & set(locks.get(table, ()))},
        changed={table for table in large if "RowExclusiveLock" in locks.get(table, ())},
        read={table for table in large if scans.get(table, 0) > scans_before.get(table, 0)},
        rewritten={table for table in large if _is_rewritten(dict(files_before[table]), dict(files.get(table, ())))},
    )


def _is_rewritten(before: dict[int, int], after: dict[int, int]) -> bool:
    # What is dropped is written by nobody: only what is still there has another file when it was rewritten.
    return any(after.get(relation, file) != file for relation, file in before.items())


SHARES = pytest.mark.xdist_group("first tables")


@asynccontextmanager
async def first_tables(server: postgres.Addresses, name: str) -> AsyncIterator[asyncpg.Connection]:
    """A database with the schemas as they were when only the first files had been applied."""
    connection = await asyncpg.connect((await postgres.make_empty(server, name)).owner_url)
    try:
        for schema, package in PACKAGES.items():
            await schema_history.migrate(
                connection, schema, migrations.read_migrations(package)[: FIRST_FILES_COUNT[schema]]
            )
        yield connection
    finally:
        await connection.close()
        await postgres.drop_copy(server, name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept_tables(postgres_server: postgres.Addresses, worker_id: str) -> AsyncIterator[asyncpg.Connection]:
    """The same for all tests that undo what they do."""
    async with first_tables(postgres_server, f"first_tables_{worker_id}") as connection:
        yield connection


@asynccontextmanager
async def undone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction whose work is rolled back."""
    trial = connection.transaction()
    await trial.start()
    await connection.execute("set local search_path = pixconnect")
    try:
        yield
    finally:
        await trial.rollback()


@pytest.mark.long
@pytest.mark.parametrize("schema", PACKAGES)
async def test_no_migration_keeps_anybody_waiting_on_a_large_table(
    postgres_server: postgres.Addresses, worker_id: str, schema: str
) -> None:
    async with (
        first_tables(postgres_server, f"all_tables_{worker_id}") as connection,
        migrations.alone(connection, schema),
    ):
        for migration in migrations.read_migrations(PACKAGES[schema])[FIRST_FILES_COUNT[schema] :]:
            if migration.is_outside_transaction:  # nothing else than what may wait is allowed there
                await migrations.apply(connection, schema, migration)
                continue
            async with connection.transaction():
                look = await look_at(connection, schema, migration.sql)
            # A batch reads and changes rows, but few of them: it begins behind the last one's and says where it ends.
            complaints = [*look.rewritten, *look.held] if migration.is_in_batches else look.complaints()
            assert complaints == [], migration.name


_ONE_BATCH = re.compile(r"where id > \$1 order by id (?:limit \d{1,4}\b|fetch first \d{1,4} rows with ties)")


@pytest.mark.parametrize("schema", PACKAGES)
def test_a_step_in_batches_looks_at_a_bounded_number_of_rows(schema: str) -> None:
    for migration in migrations.read_migrations(PACKAGES[schema]):
        if migration.is_in_batches:
            assert _ONE_BATCH.search(migration.sql), migration.name
            assert migration.sql.count(";") == 1, migration.name


async def test_a_migrated_database_has_no_constraint_that_was_not_validated(database: postgres.Addresses) -> None:
    connection = await asyncpg.connect(database.owner_url)
    try:
        found = await connection.fetch(
            "select conrelid::regclass::text, conname from pg_constraint where not convalidated"
        )
        assert [tuple(row) for row in found] == []
    finally:
        await connection.close()


@SHARES
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "sql",
    [
        "create index on ledger_entry (transfer_id)",
        "alter table transfer add column rank float not null default random()",
        "alter table transfer alter column slot type bigint",
        "alter table transfer add constraint amount_is_odd check (amount_cents % 2 = 1)",
        "alter table transfer alter column txid set not null",
        "alter table charge add foreign key (holder_id) references holder",
        "alter table charge add constraint x check (slot > 0) not valid; alter table charge validate constraint x",
        "update charge set slot = 1",
        "delete from tally",
        "reindex table charge",
        "cluster charge using charge_pkey",
        "lock table charge; select count(*) from transfer",
    ],
)
async def test_what_would_keep_others_waiting_is_found(kept_tables: asyncpg.Connection, sql: str) -> None:
    async with undone(kept_tables):
        assert (await look_at(kept_tables, "pixconnect", sql)).complaints()


@SHARES
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "sql",
    [
        "create table mark (id bigint primary key); create index on mark (id)",
        "alter table transfer add column rank bigint not null default 0",
        "alter table transfer add constraint amount_is_odd check (amount_cents % 2 = 1) not valid",
        "alter table charge add foreign key (holder_id) references holder not valid",
        "alter table charge validate constraint charge_slot_check",
        "update clock set offset_us = 1; alter table client alter column name type varchar(300)",
        "create trigger refuse before update on charge for each row execute function refuse_change()",
    ],
)
async def test_what_keeps_nobody_waiting_is_allowed(kept_tables: asyncpg.Connection, sql: str) -> None:
    async with undone(kept_tables):
        assert (await look_at(kept_tables, "pixconnect", sql)).complaints() == []
