"""The table of known cells keeps what names and ids lead by, holds no login, and has rows in the home cell alone."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.running import installation
from support.postgres import Addresses

IDENTITY = UUID("0197c3a1-0000-4000-8000-000000000001")
_ADD = "insert into cell (number, name, address) values ($1, $2, $3)"


@pytest.fixture
async def owner(database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await installation.check_mode(connection, "sandbox")
        yield connection
    finally:
        await connection.close()


async def add(
    owner: asyncpg.Connection, number: int = 1, name: str = "a", address: str = "postgresql://db:1/a"
) -> None:
    await owner.execute(_ADD, number, name, address)


async def test_cells_are_listed_by_number_and_open_later(owner: asyncpg.Connection) -> None:
    await add(owner, 2, "b", "postgresql://db:1/b")
    await add(owner)
    [first, second] = await cell_store.list_all(owner)
    assert [(first.number, first.name, first.state), (second.number, second.name)] == [(1, "a", "OPENING"), (2, "b")]
    assert first.identity != second.identity


async def test_an_upgrade_reads_which_cells_there_are_before_the_table_has_the_columns_of_its_own_version(
    owner: asyncpg.Connection,
) -> None:
    await add(owner)
    await add(owner, 2, "b", "postgresql://db:1/b")
    await owner.execute("update cell set state = 'OPEN' where number = 1")
    [known] = await cell_store.list_open_cells(owner)
    assert await cell_store.list_open_cells_of_any_version(owner) == [known]
    # All that came after the table itself (0152).
    await owner.execute("alter table cell drop column other_address cascade, drop column moving_since cascade")
    assert await cell_store.list_open_cells_of_any_version(owner) == [known]


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        (dict(number=0), "home_is_no_row"),
        (dict(number=256), "home_is_no_row"),
        (dict(name="home"), "cell_name_is_a_word"),
        (dict(name="A b"), "cell_name_is_a_word"),
        (dict(name=""), "cell_name_is_a_word"),
        (dict(address="postgresql://pix:pw@db:1/a"), "address_has_no_login"),
        (dict(address="postgresql://db:1/a?sslmode=verify-full&Password=pw"), "address_has_no_login"),
        (dict(address="postgresql://db:1/"), "address_has_no_login"),
        (dict(address="db"), "address_has_no_login"),
    ],
)
async def test_the_schema_holds_what_a_known_cell_is(
    owner: asyncpg.Connection, columns: dict[str, str | int], constraint: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=constraint):
        await add(owner, **columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("again", [dict(number=1), dict(name="a"), dict(address="postgresql://db:1/a")])
async def test_number_name_and_address_are_one_cells(owner: asyncpg.Connection, again: dict[str, str | int]) -> None:
    await add(owner)
    other: dict[str, str | int] = dict(number=2, name="b", address="postgresql://db:1/b")
    with pytest.raises(asyncpg.UniqueViolationError):
        await add(owner, **{**other, **again})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement",
    [
        "update cell set number = 7",
        "update cell set name = 'b'",
        "update cell set identity = gen_random_uuid()",
        "delete from cell",
        "truncate cell cascade",
    ],
)
async def test_an_open_cell_is_kept(owner: asyncpg.Connection, statement: str) -> None:
    await add(owner)
    await owner.execute("update cell set state = 'OPEN'")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await owner.execute(statement)


async def test_a_cell_that_is_being_added_may_begin_anew_elsewhere(owner: asyncpg.Connection) -> None:
    await add(owner)
    await owner.execute("update cell set address = 'postgresql://db:1/b', identity = gen_random_uuid()")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await owner.execute("update cell set number = 7")


async def test_a_cell_knows_no_other_cells_and_what_knows_some_becomes_none(owner: asyncpg.Connection) -> None:
    await add(owner)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="a cell keeps its number"):
        await owner.execute("select become_cell(7)")


async def test_the_table_is_empty_in_every_other_cell(owner: asyncpg.Connection) -> None:
    await owner.execute("select become_cell(7)")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="only the home cell knows the others"):
        await add(owner)


async def test_a_cell_says_its_number_and_identity_once_and_the_home_cell_none(owner: asyncpg.Connection) -> None:
    assert await cell_store.find_claim(owner) == cell_store.Claim(number=0, identity=None)
    with pytest.raises(asyncpg.CheckViolationError, match="home_has_no_identity"):
        await owner.execute("update installation set cell_identity = $1", IDENTITY)
    await owner.execute("select become_cell(7)")
    await owner.execute("update installation set cell_identity = $1", IDENTITY)
    assert await cell_store.find_claim(owner) == cell_store.Claim(number=7, identity=IDENTITY)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="keeps its number"):
        await owner.execute("update installation set cell_identity = gen_random_uuid()")


async def test_the_service_reads_it_and_writes_nothing(owner: asyncpg.Connection) -> None:
    await owner.execute("set session authorization pixconnect_service")
    assert await cell_store.list_all(owner) == []
    for statement in (
        "insert into cell (number, name, address) values (1, 'a', 'postgresql://db:1/a')",
        "update cell set state = 'OPEN'",
        "update installation set cell_identity = gen_random_uuid()",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute(statement)
