"""A cell's database may be at another address, restored or called otherwise; there are never two of one cell."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qsl

import asyncpg
import pytest

from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.store.running import cell as cell_store
from support import cells, postgres
from support.cell_places import was_elsewhere
from support.command_line import CommandLine
from support.postgres import Addresses


@pytest.fixture
async def second(tables: Addresses, home: asyncpg.Connection) -> KnownCell:
    known = await cells.know(home, "second", tables)
    await cells.let_claim(tables, known)
    return known


@pytest.fixture
def pixconnect(database: Addresses, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)


async def test_a_cell_is_where_its_database_was_restored_once_the_former_one_is_gone(
    postgres_server: Addresses,
    database: Addresses,
    home: asyncpg.Connection,
    second: KnownCell,
    tables: Addresses,
    pixconnect: CommandLine,
) -> None:
    _, former = tables.owner_url.split("?")[0].rsplit("/", 1)
    restored = postgres.in_database(postgres_server, f"{former}_restored")
    await postgres.execute_as_owner(database, f"create database {former}_restored template {former}")
    try:
        ask = ("cell", "set", "second", "--database-url", cells.address_of(restored))
        refusal = await asyncio.to_thread(pixconnect.refusal, *ask)
        assert "answers, and is another one: stop or rename that first" in refusal
        # Whatever an operator says of it, it answers.
        assert await asyncio.to_thread(pixconnect.refusal, *ask, "--fenced") == refusal
        assert await cell_store.find(home, "second") == second
        await postgres.execute_as_owner(database, f"alter database {former} rename to {former}_lost")
        done = await asyncio.to_thread(pixconnect.json, *ask)
        assert done["address"] == cells.address_of(restored)
        # The same again changes nothing.
        assert await asyncio.to_thread(pixconnect.json, *ask) == done
        assert (await asyncio.to_thread(pixconnect.run, "cell", "check", "second")).returncode == 0
        rows = await home.fetch(
            "select subject, before ->> 'address', after ->> 'address' from audit where verb = 'cell set'"
        )
        assert [tuple(row) for row in rows] == [("cell second", second.address, cells.address_of(restored))]
        assert await was_elsewhere(restored)
        await postgres.execute_as_owner(database, f"alter database {former}_lost rename to {former}")
    finally:
        await postgres.execute_as_owner(database, f"drop database {former}_restored with (force)")


async def test_a_server_that_is_called_otherwise_is_the_same(
    home: asyncpg.Connection, second: KnownCell, tables: Addresses, pixconnect: CommandLine
) -> None:
    otherwise = f"{second.address}&sslmode=disable"
    done = await asyncio.to_thread(pixconnect.json, "cell", "set", "second", "--database-url", otherwise)
    assert done["address"] == otherwise
    known = await cell_store.find(home, "second")
    assert known is not None
    assert known.address == otherwise
    # It cannot have gone on anywhere else.
    assert not await was_elsewhere(tables)


# As the last upgrade that changed what `cell set` writes found them.
_OF_BEFORE = """
    delete from pixconnect.schema_version where version >= 159;
    alter table pixconnect.installation drop column elsewhere_since, drop column came_by
"""


async def test_tables_of_before_an_upgrade_are_brought_up_to_date_where_they_are_restored(
    postgres_server: Addresses, database: Addresses, second: KnownCell, tables: Addresses, pixconnect: CommandLine
) -> None:
    _, former = tables.owner_url.split("?")[0].rsplit("/", 1)
    restored = postgres.in_database(postgres_server, f"{former}_restored")
    await postgres.execute_as_owner(database, f"create database {former}_restored template {former}")
    steps = "select count(*) from pixconnect.schema_version"
    try:
        await postgres.execute_as_owner(restored, _OF_BEFORE)
        had = await read(restored, steps)
        ask = ("cell", "set", "second", "--database-url", cells.address_of(restored))
        # Who is refused has changed nothing.
        assert "answers, and is another one" in await asyncio.to_thread(pixconnect.refusal, *ask)
        assert await read(restored, steps) == had
        await postgres.execute_as_owner(database, f"alter database {former} rename to {former}_lost")
        assert (await asyncio.to_thread(pixconnect.json, *ask))["address"] == cells.address_of(restored)
        assert await read(restored, steps) > had
        assert await was_elsewhere(restored)
        assert (await asyncio.to_thread(pixconnect.run, "cell", "check", "second")).returncode == 0
        await postgres.execute_as_owner(database, f"alter database {former}_lost rename to {former}")
    finally:
        await postgres.execute_as_owner(database, f"drop database {former}_restored with (force)")


async def read(addresses: Addresses, query: str) -> int:
    connection = await asyncpg.connect(addresses.owner_url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_no_other_database_is_set_in_the_place_of_a_cell(
    home: asyncpg.Connection, second: KnownCell, empty: Addresses, database: Addresses, pixconnect: CommandLine
) -> None:
    def refusal(address: str) -> str:
        return pixconnect.refusal("cell", "set", "second", "--database-url", address)

    assert "has no tables of ours" in await asyncio.to_thread(refusal, cells.address_of(empty))
    assert "says that it is cell 0" in await asyncio.to_thread(refusal, cells.address_of(database))
    assert "cannot be reached" in await asyncio.to_thread(refusal, "postgresql://127.0.0.1:1/nowhere")
    # This server is of no cluster.
    of_cluster = await asyncio.to_thread(refusal, f"{second.address}&cluster=pix-2")
    assert 'its server is of the cluster "", and its address names "pix-2"' in of_cluster
    await home.execute("update cell set state = 'OPENING'")
    assert "the cell second is OPENING" in await asyncio.to_thread(refusal, cells.address_of(empty))
    assert "there is no cell 'third'" in await asyncio.to_thread(
        pixconnect.refusal, "cell", "set", "third", "--database-url", "postgresql://db/pix"
    )
    assert await home.fetchval("select address from cell") == second.address


async def test_a_server_of_which_nobody_knows_whether_it_serves_is_to_be_fenced(
    home: asyncpg.Connection, second: KnownCell, tables: Addresses, pixconnect: CommandLine
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    socket = {"port": "5432"} | dict(parse_qsl(second.address.partition("?")[2]))
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ask = ("cell", "set", "second", "--database-url", second.address)
    async with server:
        for former in (
            f"postgresql://127.0.0.1:{port}/pix",
            # It may only be starting again.
            "postgresql://127.0.0.1:1/pix",
            "postgresql:///pix?host=/nowhere",
            # What nobody knows of the one is not known by what is known of the other, in whatever order they stand.
            f"postgresql:///no_such_database?host={socket['host']},/nowhere&port={socket['port']},1",
            f"postgresql:///no_such_database?host=/nowhere,{socket['host']}&port=1,{socket['port']}",
            # A file that is missing on this machine says nothing of that server.
            f"postgresql://127.0.0.1:{port}/pix?sslmode=verify-full&sslrootcert=/nowhere.pem",
        ):
            await home.execute("update cell set address = $1", former)
            refusal = await asyncio.to_thread(pixconnect.refusal, *ask)
            assert "keep it from that for ever, and run this again with --fenced" in refusal, former
            assert not await was_elsewhere(tables)
        done = await asyncio.to_thread(pixconnect.json, *ask, "--fenced")
        assert done["address"] == second.address
        assert await was_elsewhere(tables)
