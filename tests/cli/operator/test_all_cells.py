"""What operators' verbs print of all cells: what each has, and the names of those that do not answer."""

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.domain.frame.cell import cell_of_id
from support import cells
from support.command_line import DISABLED_ENDPOINT, CommandLine
from support.identity import SECRET_KEY
from support.postgres import Addresses


class Verbs:
    """The command line of an installation with two cells, each of which has a holder with a client."""

    secret_key: Final = base64.urlsafe_b64encode(SECRET_KEY).decode().rstrip("=")

    def __init__(self, command_line: CommandLine) -> None:
        self._command_line = command_line

    async def run(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(self._command_line.run, *words, **environment)

    async def json(self, *words: str) -> dict[str, Any]:
        return await asyncio.to_thread(self._command_line.json, *words)

    async def refusal(self, *words: str) -> str:
        return await asyncio.to_thread(self._command_line.refusal, *words)

    async def open_holder(self, cell: str, account_number: str) -> int:
        new = ("holder", "create", "--name", "Maria Silva", "--tax-id", "52998224725", "--cell", cell)
        holder_id = (await self.json(*new, "--account-number", account_number))["holder_id"]
        await self.json("client", "create", "--holder-id", str(holder_id))
        return holder_id


@pytest.fixture
async def second(database: Addresses, postgres_server: Addresses) -> AsyncIterator[Addresses]:
    async with cells.beside(postgres_server) as made:
        await cells.add_cell(database, made)
        yield made


@pytest.fixture
def verbs(database: Addresses, second: Addresses, tmp_path: Path) -> Verbs:
    del second
    return Verbs(CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url))


async def lose_second(database: Addresses) -> None:
    await cells.execute(database, "update cell set address = 'postgresql://127.0.0.1:1/nowhere'")


async def test_lists_have_the_rows_of_all_cells_in_their_order(verbs: Verbs) -> None:
    there = await verbs.open_holder("second", "1001")
    here = [await verbs.open_holder("home", str(number)) for number in (1002, 1003)]
    assert cell_of_id(there) == 1
    holders = (await verbs.json("holder", "list"))["holders"]
    assert [holder["holder_id"] for holder in holders] == [*here, there]
    pages = [
        [holder["holder_id"] for holder in (await verbs.json("holder", "list", "--limit", "2", *after))["holders"]]
        for after in ((), ("--after", str(here[-1])))
    ]
    assert pages == [here, [there]]
    entries = (await verbs.json("audit", "list", "--limit", "5"))["entries"]
    assert [(entry["cell"], entry["verb"]) for entry in entries] == [
        ("home", "client create"),
        ("home", "holder create"),
        ("home", "client create"),
        ("home", "holder create"),
        ("second", "client create"),
    ]
    for words in (("operator", "transfer", "list"), ("block", "list"), ("find", "--unresolved")):
        assert not any((await verbs.json(*words)).values())


async def test_what_is_known_of_a_thing_finds_it_wherever_it_is(verbs: Verbs, database: Addresses) -> None:
    there, here = await verbs.open_holder("second", "1001"), await verbs.open_holder("home", "1002")
    [found] = (await verbs.json("find", "1001"))["found"]
    assert (found["kind"], found["holder_id"]) == ("holder", there)
    [found] = (await verbs.json("find", "1002"))["found"]
    assert (found["kind"], found["holder_id"]) == ("holder", here)
    assert {found["holder_id"] for found in (await verbs.json("find", "52998224725"))["found"]} == {here, there}
    assert "nothing has the id E404" in await verbs.refusal("find", "E404")
    assert "there is no transfer or refund E404" in await verbs.refusal("find", "--unresolved", "E404")
    await lose_second(database)
    # Nothing is said not to exist while a cell may have it.
    for words in (("find", "E404"), ("find", "--unresolved", "E404"), ("find", "1001")):
        done = await verbs.run(*words)
        assert done.returncode == ExitStatus.UNAVAILABLE
        assert "what these have is missing: cell second: the database cannot be reached" in done.stderr


async def test_each_cell_has_signing_keys_of_its_own_and_one_is_revoked_where_it_is(
    verbs: Verbs, database: Addresses
) -> None:
    made = (await verbs.json("signing-key", "rotate"))["keys"]
    assert [key["cell"] for key in made] == ["home", "second"]
    listed = (await verbs.json("signing-key", "list"))["keys"]
    assert [(key["cell"], key["kid"]) for key in listed] == [(key["cell"], key["kid"]) for key in made]
    revoked = made[1]["kid"]
    # A later one signs at once.
    assert (await verbs.json("signing-key", "revoke", revoked))["kid"] != revoked
    states = {key["kid"]: "revoked_at" in key for key in (await verbs.json("signing-key", "list"))["keys"]}
    assert [kid for kid, is_revoked in states.items() if is_revoked] == [revoked]
    assert "no-such-key" in await verbs.refusal("signing-key", "revoke", "no-such-key")
    await lose_second(database)
    assert "is missing: cell second" in await verbs.refusal("signing-key", "revoke", "no-such-key")


async def test_secrets_of_all_cells_are_sealed_anew(verbs: Verbs, second: Addresses, database: Addresses) -> None:
    await verbs.open_holder("second", "1001")
    await verbs.open_holder("home", "1002")
    await verbs.json("signing-key", "rotate")
    changed = dict(PIXCONNECT_SECRET_KEY="A" * 43, PIXCONNECT_SECRET_KEY_PREVIOUS=verbs.secret_key)
    done = await verbs.run("secrets", "reseal", "--json", **changed)
    assert done.returncode == 0, done.stderr
    resealed = msgspec.json.decode(done.stdout)
    assert (resealed["signing_keys_resealed"], resealed["authorities_resealed"]) == (2, 2)
    assert (resealed["secrets_left"], resealed["clients_left"]) == (0, 2)
    left = msgspec.json.decode((await verbs.run("secrets", "clients-left", "--json", **changed)).stdout)["clients"]
    assert [cell_of_id(client["holder_id"]) for client in left] == [0, 1]
    # What nobody can open is named with its cell.
    await cells.execute(second, "update signing_key set private_sealed = '\\x00'")
    done = await verbs.run("secrets", "reseal", **changed)
    assert done.returncode == ExitStatus.REFUSED
    assert " in cell second" in done.stderr
    await lose_second(database)
    done = await verbs.run("secrets", "reseal", "--json", **changed)
    assert (done.returncode, msgspec.json.decode(done.stdout)["clients_left"]) == (ExitStatus.UNAVAILABLE, 1)
    assert "not done in these, so run it again: cell second" in done.stderr


async def test_what_has_an_id_that_says_no_cell_is_reached_by_the_name_of_its_cell(
    verbs: Verbs, database: Addresses, second: Addresses
) -> None:
    there, here = await verbs.open_holder("second", "1001"), await verbs.open_holder("home", "1002")
    endpoint = DISABLED_ENDPOINT.partition(";")[0]
    # The same id in both.
    for addresses, holder_id in ((second, there), (database, here)):
        await cells.execute(addresses, endpoint.replace("(5, 1,", f"(5, {holder_id},"))
    listed = (await verbs.json("operator", "endpoint", "list"))["endpoints"]
    assert [(each["cell"], each["id"], each["status"]) for each in listed] == [
        ("home", 5, "disabled"),
        ("second", 5, "disabled"),
    ]
    resumed = await verbs.json("operator", "endpoint", "resume", "--id", "5", "--cell", "second")
    assert (resumed["holder_id"], resumed["status"]) == (there, "active")
    listed = (await verbs.json("operator", "endpoint", "list", "--status", "disabled"))["endpoints"]
    assert [each["cell"] for each in listed] == ["home"]
    again = ("operator", "endpoint", "redeliver", "--since", "2026-11-20")
    for more in ((), ("--holder-id", str(there)), ("--endpoint-id", "5", "--cell", "second")):
        assert await verbs.json(*again, *more) == {"redelivered": 0, "endpoints": 0}
    refusal = await verbs.refusal(*again, "--endpoint-id", "6", "--cell", "second")
    assert "there is no such webhook endpoint" in refusal
    assert "there is no cell 'third'" in await verbs.refusal("report", "show", "--id", "1", "--cell", "third")
    assert (await verbs.json("report", "list"))["reports"] == []
    assert "there is none with the id 1" in await verbs.refusal("report", "show", "--id", "1", "--cell", "second")


async def test_what_a_cells_database_has_forgotten_is_shown_and_closed_there(
    verbs: Verbs, database: Addresses, second: Addresses
) -> None:
    await cells.execute(
        second,
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0)",
    )
    words = ("--cell", "second")
    assert (await verbs.json("database", "show"))["losses_count"] == 0
    shown = await verbs.json("database", "show", *words)
    assert shown["losses_count"] == 1
    assert shown["database_oid"] == await cells.fetch_value(
        second, "select oid::int from pg_database where datname = current_database()"
    )
    refusal = await verbs.refusal("database", "recovered", *words, "--institution", "inter")
    assert "says the cell by itself" in refusal
    [loss] = (await verbs.json("database", "recovered", *words))["losses"]
    assert loss["reason"] == "another timeline"
    assert (await verbs.json("database", "show", *words))["losses_count"] == 0
    assert await cells.fetch_value(second, "select count(*) from audit where verb = 'database recovered'") == 1
    assert "there is no cell 'third'" in await verbs.refusal("database", "show", "--cell", "third")


async def test_what_an_upgrade_will_do_is_said_of_all_cells(
    verbs: Verbs, database: Addresses, second: Addresses
) -> None:
    last = "delete from schema_version where version = (select max(version) from schema_version)"
    await cells.execute(second, last)

    async def look() -> list[tuple[str, str]]:
        found = msgspec.json.decode((await verbs.run("doctor", "--upgrade", "--json")).stdout)
        return [(each["status"], each["text"]) for each in found["findings"] if each["check"] == "upgrade"]

    said = await look()
    assert ("ok", "the tables of pixconnect are this version's") in said
    assert ("ok", "cell second: the tables of sandbox are this version's") in said
    assert [text[:38] for status, text in said if status == "note"] == ["cell second: `migrate` will run pixcon"]
    await lose_second(database)
    said = await look()
    assert ("ok", "the tables of pixconnect are this version's") in said
    assert [text.partition(" ")[0] for status, text in said if status == "wrong"] == ["cell"]


async def test_cases_of_all_cells_are_listed_and_ended_where_they_are(
    verbs: Verbs, database: Addresses, second: Addresses
) -> None:
    for addresses, said in ((database, "at home"), (second, "there")):
        await cells.execute(
            addresses,
            f"insert into kept_case (kind, name, said, since) values ('rail', 'position', '{said}', now())",
        )
    listed = (await verbs.json("case", "list"))["cases"]
    assert [(case["cell"], case["id"], case["said"]) for case in listed] == [
        ("home", 1, "at home"),
        ("second", 1, "there"),
    ]
    words = ("--cell", "second")
    assert (await verbs.json("case", "show", "--id", "1", *words))["said"] == "there"
    assert (await verbs.json("case", "note", "1", "A clock was set back.", *words))["case_id"] == 1
    assert [case["said"] for case in (await verbs.json("case", "close", "1", "--reason", "seen", *words))["cases"]] == [
        "there"
    ]
    assert [case["cell"] for case in (await verbs.json("case", "list"))["cases"]] == ["home"]


async def test_rows_of_the_others_are_printed_while_a_cell_is_away(verbs: Verbs, database: Addresses) -> None:
    await verbs.open_holder("second", "1001")
    here = await verbs.open_holder("home", "1002")
    await lose_second(database)
    for words in (
        ("audit", "list"),
        ("block", "list"),
        ("find", "--unresolved"),
        ("holder", "list"),
        ("operator", "transfer", "list"),
        ("signing-key", "list"),
        ("secrets", "clients-left"),
    ):
        done = await verbs.run(*words, "--json")
        assert done.returncode == ExitStatus.UNAVAILABLE, words
        assert msgspec.json.decode(done.stdout) is not None
        assert done.stderr.startswith("pixconnect: what these have is missing: cell second: the database cannot be")
    assert str(here) in (await verbs.run("holder", "list")).stdout


async def test_what_acts_in_a_cell_that_is_away_names_it(verbs: Verbs, database: Addresses) -> None:
    there = await verbs.open_holder("second", "1001")
    await lose_second(database)
    for words in (
        ("cell", "drain", "second"),
        ("cell", "show", "second"),
        ("client", "create", "--holder-id", str(there)),
        ("database", "show", "--cell", "second"),
    ):
        done = await verbs.run(*words)
        assert done.returncode == ExitStatus.UNAVAILABLE, words
        assert "the cell second gives no answer at postgresql://127.0.0.1:1/nowhere" in done.stderr
