"""The shape is that of the schema, which is complete; each table and column has a comment."""

import re
from pathlib import Path

import pytest

from scripts.pages.catalogue import SCHEMAS, read_tables
from scripts.pages.schema import DRAWINGS, MEND, PAGE, SHAPE, describe_shape, write_tables
from support import postgres

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pixconnect"


async def test_the_shape_is_that_of_the_tables_and_their_page_can_be_written(database: postgres.Addresses) -> None:
    assert SHAPE.read_text(encoding="utf-8") == await describe_shape(database.owner_url), MEND
    page, *drawings = await write_tables(database.owner_url)
    assert page == PAGE
    assert all(name.startswith(f"{DRAWINGS}/") for name in drawings)


async def test_no_constraint_waits_for_its_validation(database: postgres.Addresses) -> None:
    async with postgres.as_owner(database) as connection:
        found = await connection.fetch("select conrelid::regclass::text, conname from pg_constraint where not convalidated")
    assert [tuple(row) for row in found] == []


async def test_a_function_of_the_owner_looks_into_its_own_schema_alone(database: postgres.Addresses) -> None:
    async with postgres.as_owner(database) as connection:
        functions = await connection.fetch(
            "select proname, proconfig from pg_proc where pronamespace = 'pixconnect'::regnamespace and prosecdef"
        )
    # A temporary table must not take the place of a table of the schema.
    assert functions
    assert [each["proname"] for each in functions if "search_path=pixconnect, pg_temp" not in each["proconfig"]] == []


_NAMES_A_SCHEMA = re.compile(
    r"\b(?:pixconnect|sandbox|verify)\.[a-z_]+|search_path *(?:=|to) *(?:pixconnect|sandbox|verify)", re.IGNORECASE
)


def test_no_statement_names_a_schema() -> None:
    texts = re.compile(r'"""(.*?)"""|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
    words = re.compile(r"^\s*(?:select|insert|update|delete|with|alter|create|drop|lock)\b", re.IGNORECASE)
    named = [
        f"{path.relative_to(SOURCE)}: {found[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for text in texts.findall(path.read_text(encoding="utf-8"))
        if words.match(text[0] or text[1]) and (found := _NAMES_A_SCHEMA.findall(text[0] or text[1]))
    ]
    assert named == []


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_each_table_and_column_says_what_it_means(database: postgres.Addresses, schema: str) -> None:
    tables = await read_tables(database.owner_url, schema)
    said = {table.name: table.comment for table in tables} | {
        f"{table.name}.{column.name}": column.comment for table in tables for column in table.columns
    }
    assert [name for name, comment in said.items() if not comment] == [], "say it by `comment on` in the schema"
    assert [name for name, comment in said.items() if comment and not re.fullmatch(r"[A-Z].*\.", comment)] == []
