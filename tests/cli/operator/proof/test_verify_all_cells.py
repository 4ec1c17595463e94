"""``pixconnect verify`` with two cells: each is looked at, and one that does not answer is none whose books are right."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from pixconnect.cli.frame.exit_status import ExitStatus
from support import cells
from support.books import chain_all
from support.command_line import CommandLine
from support.postgres import Addresses
from support.service import open_holder, open_service
from support.webhooks import eventually

NOW = ("--whole", "--again-after-s", "0")


class Holders:
    """A holder in each of two cells, whose entries are chained."""

    here: int
    there: int


@pytest.fixture
async def holders(database: Addresses, other_database: Addresses) -> Holders:
    await cells.add_cell(database, other_database)
    made = Holders()
    async with open_service(database) as home, open_service(other_database, cell=cells.NUMBER) as there:
        made.here = (await open_holder(home, funds_cents=1_000)).holder_id
        made.there = (await open_holder(there, account_number="2", funds_cents=2_000)).holder_id
        for service in (home, there):
            await chain_all(service.context)
    return made


async def told(pixconnect: CommandLine, *words: str) -> dict[str, Any]:
    return json.loads((await asyncio.to_thread(pixconnect.run, "verify", *words, "--json")).stdout)


async def test_findings_of_each_cell_are_named_by_it(
    other_database: Addresses, pixconnect: CommandLine, holders: Holders
) -> None:
    found = await told(pixconnect, *NOW)
    # Servers of tests are forgetful on purpose.
    assert {(each["cell"], each["rule"]) for each in found["findings"]} == {
        ("home", "server_keeps_what_it_wrote"),
        ("second", "server_keeps_what_it_wrote"),
    }
    assert (found["holders"], found["broken"]) == (2, 1)
    await cells.execute(
        other_database,
        "set session_replication_role = replica; "
        "update balance set available_cents = available_cents - 1, settlement_cents = settlement_cents + 1",
    )
    [lost] = [each for each in (await told(pixconnect, *NOW))["findings"] if each["rule"] == "balance_is_sum"]
    assert (lost["cell"], lost["holder_id"]) == ("second", holders.there)
    said = await asyncio.to_thread(pixconnect.run, "verify", "--rule", "balance_is_sum", "--again-after-s", "0")
    assert said.returncode == ExitStatus.BROKEN
    heading, _, second = said.stdout.partition("cell second\n")
    assert heading.startswith("cell home\n1 rules, 1 holders, 0 findings")
    assert second.startswith("! balance_is_sum")


async def test_a_cell_that_is_away_is_named_and_the_others_are_looked_at(
    database: Addresses, other_database: Addresses, pixconnect: CommandLine, holders: Holders
) -> None:
    await cells.execute(database, "update cell set address = 'postgresql://127.0.0.1:1/nowhere'")
    ended = await asyncio.to_thread(pixconnect.run, "verify", "--rule", "balance_is_sum", "--json")
    assert (ended.returncode, json.loads(ended.stdout)["holders"]) == (ExitStatus.UNAVAILABLE, 1)
    assert "not looked at: cell second: the database cannot be reached" in ended.stderr
    ended = await asyncio.to_thread(pixconnect.run, "verify", *NOW, "--json")
    assert ended.returncode == ExitStatus.BROKEN
    assert "3 findings; not looked at: cell second" in ended.stderr
    # A database that takes no connection is away too.
    await cells.execute(database, f"update cell set address = '{cells.address_of(other_database)}'")
    name = urlsplit(other_database.owner_url).path[1:]
    await cells.execute(database, f"alter database {name} with allow_connections false")
    try:
        ended = await asyncio.to_thread(pixconnect.run, "verify", "--rule", "balance_is_sum")
    finally:
        await cells.execute(database, f"alter database {name} with allow_connections true")
    assert (ended.returncode, ended.stdout[:9]) == (ExitStatus.UNAVAILABLE, "cell home")
    assert "not looked at: cell second: the database is in no state to do that" in ended.stderr
    await cells.execute(database, "update cell set address = 'postgresql://127.0.0.1:1/nowhere'")
    # Heads are kept as a whole, or not at all.
    assert "what these have is missing: cell second" in await asyncio.to_thread(
        pixconnect.refusal, "verify", "heads", "write"
    )
    shown = ("verify", "entry", "1", "--holder-id", str(holders.there))
    assert "cannot be reached" in await asyncio.to_thread(pixconnect.refusal, *shown)


async def test_a_cell_that_is_lost_while_it_is_looked_at_is_named(
    other_database: Addresses, pixconnect: CommandLine, holders: Holders
) -> None:
    del holders
    look = ("verify", "--rule", "balance_is_sum", "--again-after-s", "0")
    end = """
        select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and application_name = 'pixconnect verify' and wait_event_type = 'Lock'
    """

    async def is_lost() -> bool:
        return bool(await cells.fetch_value(other_database, end))

    owner = await asyncpg.connect(other_database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        async with owner.transaction():
            # It is in the middle when it waits for this.
            await owner.execute("lock table balance in access exclusive mode")
            looking = asyncio.create_task(asyncio.to_thread(pixconnect.run, *look))
            await eventually(is_lost)
            ended = await looking
    finally:
        await owner.close()
    assert (ended.returncode, ended.stdout[:9]) == (ExitStatus.UNAVAILABLE, "cell home")
    assert "not looked at: cell second: the database was lost (" in ended.stderr


async def test_a_cell_that_gives_out_ids_of_another_is_found(
    other_database: Addresses, pixconnect: CommandLine, holders: Holders
) -> None:
    del holders
    await cells.execute(other_database, "alter sequence charge_id minvalue 1 start 1 restart 7")
    found = await told(pixconnect, "--rule", "tables_are_as_made", "--again-after-s", "0")
    assert [(each["cell"], each["ids"]) for each in found["findings"]] == [("second", ["sequence charge_id"])]
    await cells.execute(
        other_database,
        "alter sequence holder_id minvalue 70368744177665 maxvalue 105553116266495 start 70368744177665 restart",
    )
    found = await told(pixconnect, "--rule", "installation_is_known", "--again-after-s", "0")
    assert [(each["cell"], each["ids"], each["expected"], each["found"]) for each in found["findings"]] == [
        ("second", ["cell"], "2", "1")
    ]
    await cells.execute(other_database, "set session_replication_role = replica; update installation set cell = 2")
    refusal = await asyncio.to_thread(pixconnect.run, "verify", "--rule", "installation_is_known")
    assert "number 2 of this installation or of another one" in refusal.stderr


async def test_heads_are_kept_of_all_cells_and_compared_with_the_cell_that_has_them(
    other_database: Addresses, pixconnect: CommandLine, holders: Holders, tmp_path: Path
) -> None:
    file = tmp_path / "heads"
    await asyncio.to_thread(pixconnect.json, "verify", "heads", "write", str(file))
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert [head["holder_id"] for head in kept if "holder_id" in head] == [holders.here, holders.there]
    assert {(head.get("cell"), head["chain"]) for head in kept if "chain" in head} == {
        (None, "audit"),
        (None, "entries"),
        (1, "audit"),
        (1, "entries"),
    }
    compare = ("--rule", "heads_are_as_kept", "--again-after-s", "0", "--heads", str(file))
    assert (await told(pixconnect, *compare))["findings"] == []
    entry_id = await cells.fetch_value(other_database, "select max(id) from ledger_entry")
    shown = await asyncio.to_thread(
        pixconnect.json, "verify", "entry", str(entry_id), "--holder-id", str(holders.there)
    )
    assert shown["is_as_chained"]
    await cells.execute(
        other_database, "set session_replication_role = replica; update entry_chain set head = sha256(head)"
    )
    found = (await told(pixconnect, *compare))["findings"]
    assert {(each["cell"], each["holder_id"]) for each in found} == {("second", holders.there), ("second", None)}
