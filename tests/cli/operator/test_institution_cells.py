"""Verbs about accounts at institutions go to the account's cell by its name, and lists are of all cells."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec import Struct

from pixconnect.adapters.system import SystemClock
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.domain.frame.cell import HOME, cell_of_id
from pixconnect.domain.institutions.account import Credential
from support import cells
from support.cells import NUMBER
from support.command_line import LIVE, CommandLine
from support.fake_institution import OWNER_TAX_ID
from support.identity import SECRET_KEY
from support.live_cells import open_live_cells
from support.postgres import Addresses
from support.service import FakeClock

LOSE = "insert into database_loss (reason, system_identifier, started_at, orders_count) values ('a test', 1, now(), 0)"


class Two(Struct, frozen=True):
    """The account loja in the second cell, banco at home."""

    verbs: CommandLine
    home: Addresses
    houses: dict[str, int]

    def lose_second(self) -> None:
        asyncio.run(cells.execute(self.home, "update cell set address = 'postgresql://127.0.0.1:1/nowhere'"))

    def states(self) -> dict[str, tuple[str, str]]:
        return {
            one["name"]: (one["cell"], one["state"]) for one in self.verbs.json("institution", "list")["institutions"]
        }

    def create(self, number: str, *words: str) -> tuple[str, ...]:
        new = (
            "holder",
            "create",
            "--name",
            "Loja",
            "--tax-id",
            OWNER_TAX_ID,
            "--no-limits",
            "--account-number",
            number,
        )
        return (*new, *words)


async def make(home: Addresses, second: Addresses) -> dict[str, int]:
    # The verbs go by the machine's own clock.
    clock = FakeClock(SystemClock().now())
    async with open_live_cells(home, second, clock, secret_key=SECRET_KEY) as two:
        kind = dict(kind="woovi", profile="woovi")
        loja = await two.add(NUMBER, "loja", **kind, receiving=Credential(client_secret="loja"))
        other = dict(keys=["banco@test.example"], receiving=Credential(client_secret="banco"))
        banco = await two.add(HOME, "banco", **kind, **other)
    return {"loja": loja.house_id, "banco": banco.house_id}


@pytest.fixture
def two(database: Addresses, other_database: Addresses, tmp_path: Path) -> Two:
    houses = asyncio.run(make(database, other_database))
    return Two(CommandLine(database, tmp_path, **LIVE), database, houses)


def test_verbs_go_to_the_accounts_cell_by_its_name(two: Two) -> None:
    verbs = two.verbs
    assert two.states() == {"loja": ("second", "active"), "banco": ("home", "active")}
    shown = verbs.json("institution", "show", "loja")
    assert (shown["house"], cell_of_id(shown["house"])) == (two.houses["loja"], NUMBER)
    for name in ("loja", "banco"):
        assert verbs.json("institution", "allow", name, "--refunds", "500")["acts_now"] is True
        assert verbs.json("institution", "unmatched", name) == {"unmatched": []}
        assert len(verbs.json("institution", "days", name)["days"]) == 7
        assert "a holder is on it" in verbs.refusal("institution", "remove", name)
        assert "nothing waits for a second operator" in verbs.refusal("institution", "confirm", name)
        assert "nothing is known to be forgotten" in verbs.refusal("database", "recovered", "--institution", name)
    assert verbs.run("institution", "pause", "loja").stdout == "loja is paused\n"
    assert two.states() == {"loja": ("second", "paused"), "banco": ("home", "active")}
    assert verbs.run("institution", "resume", "loja").stdout == "loja is active\n"
    entries = verbs.json("audit", "list", "--limit", "3")["entries"]
    assert [(entry["cell"], entry["verb"]) for entry in entries][:2] == [
        ("second", "institution resume"),
        ("second", "institution pause"),
    ]
    assert "there is no account nobody" in verbs.refusal("institution", "pause", "nobody")


def test_a_holder_is_opened_in_the_cell_of_its_account_and_stays_there(two: Two) -> None:
    verbs = two.verbs
    there = verbs.json(*two.create("1", "--institution", "loja"))
    assert (cell_of_id(there["holder_id"]), there["institution_id"]) == (NUMBER, 1)
    assert cell_of_id(verbs.json(*two.create("2", "--institution", "banco"))["holder_id"]) == HOME
    assert "the account is in the cell second" in verbs.refusal(
        *two.create("3", "--institution", "loja", "--cell", "home")
    )
    # Whoever is to be the first of another account there has none yet.
    house = verbs.json(*two.create("4", "--cell", "second"))["holder_id"]
    assert (cell_of_id(house), cell_of_id(verbs.json(*two.create("5"))["holder_id"])) == (NUMBER, HOME)
    for holder_id, name in ((house, "banco"), (two.houses["banco"], "loja")):
        said = verbs.refusal("holder", "set", "--holder-id", str(holder_id), "--institution", name)
        assert f"the account {name} is in another cell than holder {holder_id}" in said
    assert verbs.json("holder", "set", "--holder-id", str(house), "--institution", "loja")["institution_id"] == 1


def test_all_are_paused_in_all_cells_and_a_cell_that_is_away_is_named(two: Two) -> None:
    verbs = two.verbs
    assert verbs.run("institution", "pause", "--all").stdout == "banco is paused\nloja is paused\n"
    assert {state for _, state in two.states().values()} == {"paused"}
    verbs.run("institution", "resume", "banco")
    two.lose_second()
    done = verbs.run("institution", "pause", "--all")
    assert (done.returncode, done.stdout) == (ExitStatus.REFUSED, "banco is paused\n")
    assert "were not paused: those of the cell second (the database cannot be reached" in done.stderr
    done = verbs.run("institution", "list", "--json")
    assert (done.returncode, '"banco"' in done.stdout) == (ExitStatus.UNAVAILABLE, True)
    assert "what these have is missing: cell second" in done.stderr
    # It is known where it is, and of another name nobody knows.
    done = verbs.run("institution", "resume", "loja")
    assert done.returncode == ExitStatus.UNAVAILABLE
    assert "the cell second gives no answer" in done.stderr
    done = verbs.run("institution", "resume", "nobody")
    assert done.returncode == ExitStatus.UNAVAILABLE
    assert "there is no account nobody in any cell that answers: cell second" in done.stderr
    # No loss has paused it, so it waits for no cell.
    assert verbs.run("institution", "resume", "banco").stdout == "banco is active\n"


def test_what_a_restore_has_brought_back_is_named_and_no_money_leaves_it(two: Two) -> None:
    verbs = two.verbs

    def find_accounts(*words: str) -> list[tuple[str, str]]:
        found = verbs.run("cell", "check", *words, "--json").stdout
        findings = [(one["cell"], one["finding"]) for one in json.loads(found)["findings"]]
        return [(cell, line) for cell, line in findings if "account" in line]

    assert find_accounts() == []
    asyncio.run(cells.execute(two.home, "update institution_account set keys = '{loja@test.example}'"))
    asyncio.run(cells.execute(two.home, LOSE))
    for words in ((), ("home",), ("second",)):
        [(cell, line)] = find_accounts(*words)
        assert cell == "second"
        assert "its account loja is one with banco in the cell home" in line
        assert "(keys: loja@test.example): stop the workers, close the one" in line
    for name, words in (("banco", ("--institution", "banco")), ("banco", ()), ("loja", None)):
        verb = ("institution", "resume", name) if words is None else ("database", "recovered", *words)
        assert f"another cell has {name} too, and both are credited what comes in: keys" in verbs.refusal(*verb)
    two.lose_second()
    assert find_accounts() == []
    said = verbs.refusal("database", "recovered")
    assert "a cell that may have this account gives no answer, so nothing was done: second" in said


def test_another_file_of_an_account_is_compared_with_those_of_all_cells(two: Two, tmp_path: Path) -> None:
    file = tmp_path / "banco.toml"
    lines = (
        'kind = "woovi"', 'environment = "counterpart"', f'tax_id = "{OWNER_TAX_ID}"',
        'base_url = "https://127.0.0.1:8105"', 'client_secret_file = "secret"', 'keys = ["loja@test.example"]',
    )  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    (tmp_path / "secret").write_text("it")
    said = two.verbs.refusal("institution", "rotate", "banco", "--file", str(file))
    assert "keys: loja@test.example is on the account loja" in said
    file.write_text(file.read_text().replace("loja@", "another@"))
    assert two.verbs.json("institution", "rotate", "banco", "--file", str(file))["keys"] == ["another@test.example"]
    two.lose_second()
    said = two.verbs.refusal("institution", "rotate", "banco", "--file", str(file))
    assert "a cell that may have this account gives no answer, so nothing was done: second" in said
