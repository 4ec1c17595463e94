"""``schema.sql`` says what the migrations make, and all of it; each table and column says what it means."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from typing import cast

import asyncpg
import pytest

from pixconnect.config import PostgresVersion
from pixconnect.foundation import privileges
from pixconnect.local.embedded_postgres import LOGIN_ROLE
from pixconnect.local.postgres_programs import find_programs
from scripts.pages import schema_sql
from scripts.pages.catalogue import read_migrated
from scripts.pages.schema import DRAWINGS
from scripts.write_pages import MEND, REFERENCE, write_tables
from support import postgres

SCHEMAS = tuple(schema_sql.PACKAGES)


async def test_the_files_and_the_page_are_what_the_migrations_made(database: postgres.Addresses) -> None:
    written = await write_tables(database.owner_url)
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, MEND
    drawings = REFERENCE / DRAWINGS
    assert {path for path in written if path.parent == drawings} == set(drawings.iterdir())


@pytest.fixture
async def from_files(postgres_server: postgres.Addresses, worker_id: str) -> AsyncIterator[postgres.Addresses]:
    """A database that the files made, and no migration."""
    name = f"from_files_{worker_id}"
    addresses = await postgres.make_empty(postgres_server, name)
    try:
        for schema in SCHEMAS:
            connection = await asyncpg.connect(addresses.owner_url)
            await connection.execute(schema_sql.path_of(schema).read_text(encoding="utf-8"))
            await connection.close()
        connection = await asyncpg.connect(addresses.owner_url)
        await privileges.allow_play(connection, "pixconnect", LOGIN_ROLE)  # as the start of a sandbox does
        await privileges.let_verify(connection, "pixconnect")
        await connection.close()
        yield addresses
    finally:
        await postgres.drop_copy(postgres_server, name)


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_database_made_from_the_file_is_the_same(
    database: postgres.Addresses, from_files: postgres.Addresses, schema: str, request: pytest.FixtureRequest
) -> None:
    assert await read_migrated(from_files.owner_url, schema) == await read_migrated(database.owner_url, schema)
    # The same again in the words of a program that is not ours, which knows of things that ours might pass over.
    version = cast(PostgresVersion, request.config.getoption("postgres_version"))
    expected = await asyncio.to_thread(dump, version, database.owner_url, schema)
    assert await asyncio.to_thread(dump, version, from_files.owner_url, schema) == expected


# Remarks, what is another in each dump, and parentheses, of which a check has fewer once it was read back.
_NOT_OF_THE_SCHEMA = re.compile(r"^(?:--|\\(?:un)?restrict ).*$|[()]", re.MULTILINE)
_OF_A_PARTITION = re.compile(r"_idx\d+\b")  # PostgreSQL numbers its indexes in the order in which they were made


def dump(version: PostgresVersion, url: str, schema: str) -> set[str]:
    """The statements of a dump."""
    done = subprocess.run(
        [find_programs(version) / "bin" / "pg_dump", "--schema-only", f"--schema={schema}", f"--dbname={url}"],
        capture_output=True,
        text=True,
        check=True,
    )
    text = _OF_A_PARTITION.sub("_idx", _NOT_OF_THE_SCHEMA.sub("", done.stdout))
    return {" ".join(statement.split()) for statement in text.split(";\n")}


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_each_table_and_column_says_what_it_means(database: postgres.Addresses, schema: str) -> None:
    tables = (await read_migrated(database.owner_url, schema)).tables
    said = {table.name: table.comment for table in tables} | {
        f"{table.name}.{column.name}": column.comment for table in tables for column in table.columns
    }
    assert [name for name, comment in said.items() if not comment] == [], "say it by `comment on` in a migration"
    assert [name for name, comment in said.items() if comment and not re.fullmatch(r"[A-Z].*\.", comment)] == []
