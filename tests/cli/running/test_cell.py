"""A cell is added to its end, or nobody may use it, and whoever runs it again goes on; others' databases stay as they are."""

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from msgspec import structs

from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import cell_opening, migrate
from pixconnect.config import Settings
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import cell_of_id
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation import migrations
from pixconnect.foundation.migrations import NewerSchemaError
from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.running import known_cells
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.command_line import CommandLine
from support.dying import KilledError, die
from support.postgres import Addresses


async def add(settings: Settings, target: Addresses, name: str = "second") -> KnownCell:
    async with cells.operating_at_home(settings) as operator:
        return await cell_opening.add_cell(operator, settings, name, cells.address_of(target))


async def find_faults(settings: Settings, known: KnownCell) -> list[str]:
    async with cells.operating_at_home(settings) as operator:
        return await cell_opening.look_for_faults(operator, settings, known)


_STEPS: list[tuple[Callable[[pytest.MonkeyPatch], None], bool, bool]] = [
    # What dies; whether the home cell knows it then; whether its database says that it is the cell.
    (lambda patch: die(known_cells, "begin_cell", patch, before=True), False, False),
    (lambda patch: die(audit, "record", patch), False, False),
    (lambda patch: die(known_cells, "begin_cell", patch), True, False),
    (lambda patch: die(migrations, "apply", patch, call=100), True, False),
    (lambda patch: die(known_cells, "claim_tables", patch, before=True), True, False),
    (lambda patch: die(cell_store, "become", patch), True, False),
    (lambda patch: die(known_cells, "claim_tables", patch), True, True),
    (lambda patch: die(known_cells, "open_cell", patch, before=True), True, True),
    (lambda patch: die(audit, "record", patch), True, True),
]


async def test_whoever_dies_at_any_step_is_gone_on_from(
    database: Addresses, empty: Addresses, home: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cells.home_settings(database)
    target = await asyncpg.connect(empty.owner_url, server_settings={"search_path": "pixconnect"})
    for kill, is_known, is_claimed in _STEPS:
        with monkeypatch.context() as patch:
            kill(patch)
            with pytest.raises(KilledError):
                await add(settings, empty)
        # Nobody may use it before its end.
        assert [known.state for known in await cell_store.list_all(home)] == ["OPENING"] * is_known
        assert (await cell_store.find_claim(target) is not None) == is_claimed
    added = await add(settings, empty)
    assert [added] == await cell_store.list_all(home)
    assert (added.number, added.name, added.state) == (1, "second", "OPEN")
    assert await cell_store.find_claim(target) == cell_store.Claim(number=1, identity=added.identity)
    assert await target.fetchval("select nextval('holder_id')") == 2**45 + 1
    # Nothing is done twice.
    assert await add(settings, empty) == added
    assert await find_faults(settings, added) == []
    assert await migrate.bring_all_up_to_date(settings) == []
    rows = await home.fetch(
        "select verb, subject, before ->> 'state' as before, after ->> 'state' as after from audit order by id"
    )
    assert [tuple(row) for row in rows] == [
        ("cell add", "cell second", None, "OPENING"),
        ("cell add", "cell second", "OPENING", "OPEN"),
    ]
    await target.close()


async def test_a_cell_that_was_begun_elsewhere_is_no_cell_any_more(
    database: Addresses, tables: Addresses, empty: Addresses, home: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cells.home_settings(database)
    await know_opening(home, tables)
    [begun] = await cell_store.list_all(home)
    await cells.let_claim(tables, begun)
    die(known_cells, "begin_cell", monkeypatch)
    with pytest.raises(KilledError):
        await add(settings, empty)
    [anew] = await cell_store.list_all(home)
    assert (anew.number, anew.address) == (1, cells.address_of(empty))
    assert anew.identity != begun.identity
    with pytest.raises(InstallationError, match="a cell already, number 1"):
        await add(settings, tables)


async def test_of_two_who_add_cells_at_once_one_waits(
    database: Addresses, empty: Addresses, home: asyncpg.Connection
) -> None:
    async with cell_store.adding_cells(home) as is_alone:
        assert is_alone
        with pytest.raises(InstallationError, match="somebody else is adding or moving a cell"):
            await add(cells.home_settings(database), empty)
    assert await cell_store.list_all(home) == []


async def test_of_two_homes_that_want_one_database_the_first_has_it(
    database: Addresses, tables: Addresses, home: asyncpg.Connection
) -> None:
    await know_opening(home, tables)
    [known] = await cell_store.list_all(home)
    connection = await asyncpg.connect(tables.owner_url, server_settings={"search_path": "pixconnect"})
    await connection.execute("insert into installation (mode) values ('sandbox')")
    with pytest.raises(InstallationError, match="an installation of its own"):
        await known_cells.claim_tables(connection, "sandbox", known)
    assert await cell_store.find_claim(connection) == cell_store.Claim(number=0, identity=None)
    await connection.close()


async def know_opening(home: asyncpg.Connection, target: Addresses, name: str = "second") -> None:
    await home.execute("insert into cell (number, name, address) values (1, $1, $2)", name, cells.address_of(target))


@pytest.mark.parametrize(
    ("prepared", "refusal"),
    [
        ("create table public.books (id integer)", "tables of something else .public.books."),
        ("create schema pixconnect; create table pixconnect.holder (id integer)", "tables of pixconnect already"),
        (
            "create schema pixconnect; create table pixconnect.installation (mode text); "
            "insert into pixconnect.installation values ('sandbox')",
            "an installation of its own",
        ),
    ],
)
async def test_a_database_of_somebody_else_stays_as_it_is(
    database: Addresses, empty: Addresses, home: asyncpg.Connection, prepared: str, refusal: str
) -> None:
    await cells.execute(empty, prepared)
    with pytest.raises(InstallationError, match=refusal):
        await add(cells.home_settings(database), empty)
    assert await cell_store.list_all(home) == []
    connection = await asyncpg.connect(empty.owner_url)
    assert await connection.fetchval("select to_regclass('pixconnect.schema_version')") is None
    await connection.close()


async def test_the_home_cells_own_database_is_no_other_cell(database: Addresses, home: asyncpg.Connection) -> None:
    with pytest.raises(InstallationError, match="the home cell's own database"):
        await add(cells.home_settings(database), database)
    assert await cell_store.list_all(home) == []


async def test_names_and_addresses_are_one_cells(
    database: Addresses, tables: Addresses, empty: Addresses, home: asyncpg.Connection
) -> None:
    settings = cells.home_settings(database)
    await cells.know(home, "second", tables)
    with pytest.raises(InstallationError, match="is that of the cell second"):
        await add(settings, tables, "third")
    with pytest.raises(InstallationError, match="cell move second --to URL"):
        await add(settings, empty)


async def test_there_is_no_256th_cell(database: Addresses, empty: Addresses, home: asyncpg.Connection) -> None:
    await home.execute(
        "insert into cell (number, name, address) "
        "select number, 'c' || number, 'postgresql://db:1/c' || number from generate_series(1, 255) as number"
    )
    with pytest.raises(InstallationError, match="as many cells as can be numbered"):
        await add(cells.home_settings(database), empty)


async def test_tables_of_a_newer_program_are_refused(
    database: Addresses, tables: Addresses, home: asyncpg.Connection
) -> None:
    await know_opening(home, tables)
    await cells.execute(tables, "insert into pixconnect.schema_version (version, name, checksum) values (999, '', '')")
    with pytest.raises(NewerSchemaError, match="is at version 999"):
        await add(cells.home_settings(database), tables)
    assert [known.state for known in await cell_store.list_all(home)] == ["OPENING"]


_LACKS_TABLES = "drop schema verify cascade"


async def test_migrate_goes_over_all_cells_and_the_home_cell_is_last(
    database: Addresses, tables: Addresses, home: asyncpg.Connection
) -> None:
    await cells.let_claim(tables, await cells.know(home, "second", tables))
    for each in (database, tables):
        await cells.execute(each, _LACKS_TABLES)
    settings, said = cells.home_settings(database), "applied 0001 verification"
    assert await migrate.bring_all_up_to_date(settings) == [f"second: {said}", said]
    assert await migrate.bring_all_up_to_date(settings) == []


async def test_migrate_says_which_cell_failed_and_leaves_the_home_cell(
    database: Addresses, home: asyncpg.Connection
) -> None:
    await cells.know(
        home, "gone", Addresses(owner_url=f"{database.owner_url}&port=1", service_url=f"{database.service_url}&port=1")
    )
    await cells.execute(database, _LACKS_TABLES)
    settings, has_tables = cells.home_settings(database), "select to_regnamespace('verify') is not null"
    with pytest.raises(CommandError, match="the cell gone: the database cannot be reached"):
        await migrate.bring_all_up_to_date(settings)
    assert not await home.fetchval(has_tables)
    # A service that starts serves the holders of all others.
    await migrate.bring_all_up_to_date(settings, passes_over=True)
    assert await home.fetchval(has_tables)


async def test_tables_that_say_they_are_another_cell_are_not_migrated(
    database: Addresses, tables: Addresses, home: asyncpg.Connection
) -> None:
    await cells.know(home, "second", tables)
    connection = await asyncpg.connect(tables.owner_url, server_settings={"search_path": "pixconnect"})
    await connection.execute("insert into installation (mode) values ('sandbox'); select become_cell(7)")
    with pytest.raises(CommandError, match="the cell second: that database is a cell already, number 7"):
        await migrate.bring_all_up_to_date(cells.home_settings(database))
    # Nor are those of a cell that somebody takes for the home cell.
    with pytest.raises(InstallationError, match="must name the home cell's"):
        await migrate.bring_all_up_to_date(cells.home_settings(tables))
    await connection.close()


_CLAIM = "insert into pixconnect.installation (mode) values ('sandbox')"


@pytest.mark.parametrize(
    ("done", "finding"),
    [
        ("select 1", "no tables of ours"),
        (_CLAIM, "says that it is cell 0, and not 1"),
        (f"{_CLAIM}; select pixconnect.become_cell(1)", "a cell of another installation, with the same number"),
        ("insert into pixconnect.installation (mode) values ('live')", "is in live mode"),
        (
            f"{_CLAIM}; delete from pixconnect.schema_version where version > 150",
            "lack [0-9]+ steps.*`pixconnect migrate`",
        ),
        (
            f"{_CLAIM}; insert into pixconnect.schema_version (version, name, checksum) values (999, '', '')",
            "version 999",
        ),
        (f"{_CLAIM}; update pixconnect.schema_version set checksum = '' where version = 9", "step 0009"),
    ],
)
async def test_each_fault_of_a_cell_is_found_and_says_what_to_do(
    database: Addresses, tables: Addresses, home: asyncpg.Connection, done: str, finding: str
) -> None:
    known = await cells.know(home, "second", tables)
    await cells.execute(tables, done)
    found = await find_faults(cells.home_settings(database), known)
    assert re.search(finding, "\n".join(found))


async def test_a_cell_that_is_not_open_yet_is_begun_again_where_its_database_is_gone(
    database: Addresses, postgres_server: Addresses, home: asyncpg.Connection
) -> None:
    await know_opening(home, postgres.in_database(postgres_server, "not_made"))
    [known] = await cell_store.list_all(home)
    [finding] = await find_faults(cells.home_settings(database), known)
    assert "make an empty one, and run `pixconnect cell add second` again" in finding


async def test_the_verbs_of_cells(
    database: Addresses, tables: Addresses, home: asyncpg.Connection, tmp_path: Path
) -> None:
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)

    async def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(pixconnect.run, *words, **environment)

    known = await cells.know(home, "second", tables)
    found = await run("cell", "check")
    assert (found.returncode, found.stderr) == (6, "pixconnect: things to mend: 1\n")
    assert found.stdout.startswith("second: its database has no tables of ours")
    await cells.let_claim(tables, known)
    assert (await run("cell", "check")).stdout == "all is well\n"
    assert (await run("cell", "check", "second", "--json")).stdout == '{"findings":[]}\n'
    listed = (await run("cell", "list")).stdout.splitlines()
    assert [line.split()[:3] for line in listed] == [
        ["number", "name", "state"],
        ["0", "home", "OPEN"],
        ["1", "second", "OPEN"],
    ]
    shown = (await run("cell", "show", "second")).stdout
    assert "found.claim.number: 1" in shown
    assert (
        await run("cell", "show", "third")
    ).stderr == "pixconnect: there is no cell 'third': `pixconnect cell list` names them\n"
    again = await run("cell", "add", "second", "--database-url", known.address, "--json")
    assert (again.returncode, '"state":"OPEN"' in again.stdout, again.stderr) == (0, True, "")
    for name, url, refusal in (
        ("home", known.address, "NAME: a cell's name"),
        ("third", "postgresql://pix:secret@db/pix", "--database-url: says who logs in"),
    ):
        refused = await run("cell", "add", name, "--database-url", url)
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"pixconnect: {refusal}")
        assert "secret" not in refused.stderr
    # Nobody opens a holder there by accident.
    refused = await run(
        "holder", "list", DATABASE_URL=tables.service_url, PIXCONNECT_OWNER_DATABASE_URL=tables.owner_url
    )
    assert refused.stderr.startswith(
        "pixconnect: this is the database of cell 1: DATABASE_URL and the other addresses must name the home"
    )


async def test_nothing_is_done_in_a_database_that_does_not_say_which_cell_it_is(
    database: Addresses, tables: Addresses, home: asyncpg.Connection, tmp_path: Path
) -> None:
    await cells.know(home, "second", tables)
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)
    new = ("holder", "create", "--name", "Maria Silva", "--tax-id", "52998224725", "--account-number", "1001")
    for words in ((*new, "--cell", "second"), ("holder", "list"), ("verify", "--rule", "balance_is_sum")):
        refusal = await asyncio.to_thread(pixconnect.run, *words)
        assert "the database of the cell second does not say that it is this cell" in refusal.stderr
    assert await cells.fetch_value(tables, "select count(*) from installation") == 0


async def test_a_holder_of_another_cell_is_opened_and_worked_on_there(
    database: Addresses, tables: Addresses, home: asyncpg.Connection, tmp_path: Path
) -> None:
    await cells.let_claim(tables, await cells.know(home, "second", tables))
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)

    async def run(*words: str) -> dict[str, Any]:
        return await asyncio.to_thread(pixconnect.json, *words)

    new = ("holder", "create", "--name", "Maria Silva", "--tax-id", "52998224725", "--account-number", "1001")
    holder_id = str((await run(*new, "--cell", "second"))["holder_id"])
    assert cell_of_id(int(holder_id)) == 1
    assert (await run("holder", "set", "--holder-id", holder_id, "--transfer-limit", "5000"))["holder_id"] == int(
        holder_id
    )
    await run("key", "add", "--holder-id", holder_id, "--key-type", "EMAIL", "--key", "maria@shop.example")
    [key] = (await run("key", "list", "--holder-id", holder_id))["keys"]
    assert key["key"] == "maria@shop.example"
    client_id = (await run("client", "create", "--holder-id", holder_id))["client_id"]
    assert (await run("client", "rotate", "--client-id", client_id))["holder_id"] == int(holder_id)
    # What is there is in no table of the home cell, which only says whose the names are.
    for table in ("holder", "pix_key", "client"):
        assert await home.fetchval(f"select count(*) from {table}") == 0
    assert await home.fetch("select key, cell from key_cell") == [("maria@shop.example", 1)]
    assert "another holder has it" in await asyncio.to_thread(pixconnect.refusal, *new, "--cell", "home")
    assert "there is no cell 'third'" in await asyncio.to_thread(pixconnect.refusal, *new, "--cell", "third")
    unknown = ("key", "list", "--holder-id", str(2 << 45))
    assert "no open cell 2" in await asyncio.to_thread(pixconnect.refusal, *unknown)


def make_ballast(addresses: Addresses, rows: int) -> Awaitable[None]:
    """Make a database larger, by some 100 octets a row."""
    return cells.execute(
        addresses,
        "create table if not exists public.ballast as select repeat('x', 64) as text from generate_series(1, 0); "
        f"insert into public.ballast select repeat('x', 64) from generate_series(1, {rows})",
    )


async def test_a_holder_is_opened_in_the_smallest_database_that_answers_unless_one_is_chosen(
    database: Addresses, tables: Addresses, home: asyncpg.Connection, tmp_path: Path
) -> None:
    known = await cells.know(home, "second", tables)
    await cells.let_claim(tables, known)
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)
    numbers = count(1001)

    async def create(*more: str) -> tuple[int, str]:
        new = ("holder", "create", "--name", "Maria Silva", "--tax-id", "52998224725")
        words = (*new, "--account-number", str(next(numbers)), *more, "--json")
        done = await asyncio.to_thread(pixconnect.run, *words)
        assert done.returncode == 0, done.stderr
        return cell_of_id(msgspec.json.decode(done.stdout)["holder_id"]), done.stderr

    await make_ballast(database, 20_000)
    assert await create() == (1, "")
    assert await create("--cell", "home") == (0, "")
    await make_ballast(tables, 50_000)
    assert await create() == (0, "")
    await make_ballast(database, 100_000)
    # The second one would be next, and is away.
    await home.execute("update cell set address = 'postgresql://127.0.0.1:1/nowhere'")
    number, said = await create()
    assert number == 0
    assert said.startswith("the cell second was passed over: the database cannot be reached")
    # One whose tables are being made is none yet.
    await home.execute("update cell set state = 'OPENING'")
    assert await create() == (0, "")


async def test_no_holder_is_opened_in_a_cell_that_is_drained(
    database: Addresses, tables: Addresses, home: asyncpg.Connection, tmp_path: Path
) -> None:
    known = await cells.know(home, "second", tables)
    await cells.let_claim(tables, known)
    await make_ballast(tables, 20_000)
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)
    new = ("holder", "create", "--name", "Maria Silva", "--tax-id", "52998224725", "--account-number")
    drained_at = await asyncio.to_thread(lambda: pixconnect.json("cell", "drain", "home")["drained_at"])
    # The home cell is the emptier one.
    created = await asyncio.to_thread(lambda: pixconnect.json(*new, "1001"))
    assert cell_of_id(created["holder_id"]) == 1
    refusal = await asyncio.to_thread(pixconnect.refusal, *new, "1002", "--cell", "home")
    assert "--cell: no holder is opened in this one any more" in refusal
    # The same again changes nothing, not even the instant.
    assert await asyncio.to_thread(lambda: pixconnect.json("cell", "drain", "home")["drained_at"]) == drained_at
    await asyncio.to_thread(pixconnect.run, "cell", "drain", "second")
    assert "all that answer are drained" in await asyncio.to_thread(pixconnect.refusal, *new, "1002")
    rows = (await asyncio.to_thread(lambda: pixconnect.json("cell", "list")))["cells"]
    assert [(row["name"], row["drained_at"] is not None, row["octets"] > 0) for row in rows] == [
        ("home", True, True),
        ("second", True, True),
    ]
    await asyncio.to_thread(pixconnect.run, "cell", "drain", "home", "--cancel")
    created = await asyncio.to_thread(lambda: pixconnect.json(*new, "1002"))
    assert cell_of_id(created["holder_id"]) == 0
    query = "select verb || ' ' || subject from audit where verb = 'cell drain' order by 1"
    assert await home.fetch(query) == [("cell drain cell home",)] * 2


async def test_the_list_has_a_cell_that_does_not_answer(
    database: Addresses, home: asyncpg.Connection, tmp_path: Path
) -> None:
    known = await cells.know(home, "second", database)
    await home.execute("update cell set address = 'postgresql://127.0.0.1:1/nowhere'")
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)
    done = await asyncio.to_thread(pixconnect.run, "cell", "list", "--json")
    assert done.returncode == 0
    assert [row["name"] for row in msgspec.json.decode(done.stdout)["cells"]] == ["home", known.name]
    assert done.stderr.startswith("how much the cell second has is not known: the database cannot be reached")


async def test_a_holder_is_opened_in_its_accounts_cell_and_in_live_mode_otherwise_at_home_or_where_it_is_said(
    database: Addresses, home: asyncpg.Connection
) -> None:
    await home.execute(
        "insert into cell (number, name, address, state) values (1, 'second', $1, 'OPEN')", "postgresql://h/d"
    )
    async with cells.operating_at_home(cells.home_settings(database)) as operator:
        live = structs.replace(operator, policy=structs.replace(operator.policy, is_sandbox=False))
        for said, name, account_in, number in (
            (operator, None, None, None),
            (live, None, None, 0),
            (live, "home", None, 0),
            (live, "second", None, 1),
            (live, None, 1, 1),
            (live, "second", 1, 1),
            (live, None, 0, 0),
        ):
            assert await known_cells.find_cell_to_open_in(said, name, account_in) == number
        for name, account_in, where in (("home", 1, "second"), ("second", 0, "home")):
            with pytest.raises(errors.BadRequest, match=f"the account is in the cell {where}"):
                await known_cells.find_cell_to_open_in(live, name, account_in)
