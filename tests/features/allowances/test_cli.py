"""``pixconnect institution allow``, ``confirm`` and ``unmatched``, in live mode, beside a database."""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pixconnect.features.allowances import service as allowance_usecases
from pixconnect.features.allowances.rules import WantedAllowance
from pixconnect.platform.adapters.system import SystemClock
from support.account_shop import open_shop
from support.command_line import LIVE, CommandLine
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import SECOND_LOGIN_ROLE, Addresses, execute, execute_as_owner, make_live
from support.service import FakeClock, open_service

NOTHING = dict(refunds_day_cents=0, transfer_cents=0, transfers_day_cents=0, to="own")


async def open_account(database: Addresses) -> str:
    """Add an account with a received Pix that pays no charge; returns its id."""
    await make_live(database)
    # The verbs use the machine's clock.
    clock = FakeClock(SystemClock().now())
    async with open_service(database, clock=clock, is_sandbox=False, has_rail=False) as service:
        shop = await open_shop(service, FakeInstitution(clock))
        charge = await shop.charge()
        shop.pay(1000, txid=charge.txid)
        alone = await shop.receive(700)
        return alone.end_to_end_id


async def propose(database: Addresses, hours_ago: int) -> None:
    """The operator ana proposes to allow 500 cents, on an account at which money can be lost."""
    await execute_as_owner(database, "update institution_account set environment = 'production'")
    clock = FakeClock(SystemClock().now())
    clock.advance(hours=-hours_ago)
    async with open_service(database, clock=clock, is_sandbox=False, has_rail=False) as service:
        wanted = WantedAllowance(refunds_day_cents=500)
        assert await allowance_usecases.allow(as_operator(service.context, "ana"), "loja", wanted) is not None


@pytest.fixture
def alone(database: Addresses) -> str:
    return asyncio.run(open_account(database))


@pytest.fixture
def live(database: Addresses, tmp_path: Path, alone: str) -> CommandLine:
    return CommandLine(database, tmp_path, **LIVE)


def read_account(live: CommandLine) -> dict[str, Any]:
    (account,) = live.json("institution", "list")["institutions"]
    return account


def read_waiting(live: CommandLine) -> list[dict[str, Any]]:
    return live.json("proposal", "list")["proposals"]


def read_newest_verb(live: CommandLine) -> tuple[str, str, str]:
    entry = live.json("audit", "list")["entries"][0]
    return entry["operator"], entry["verb"], entry["subject"]


def test_at_a_counterpart_a_sum_is_allowed_at_once(live: CommandLine) -> None:
    assert read_account(live)["allowed"] == dict(NOTHING, by=None)
    done = live.run("institution", "allow", "loja", "--refunds", "500", "--json", PIXCONNECT_OPERATOR="ana")
    assert done.returncode == 0, done.stderr
    assert done.stdout == '{"name":"loja","refunds_day_cents":500,"acts_now":true}\n'
    assert read_account(live)["allowed"] == dict(NOTHING, refunds_day_cents=500, by="ana")
    assert read_newest_verb(live) == ("ana", "institution allow", "institution loja")
    assert read_waiting(live) == []


def test_transfers_are_allowed_with_small_sums_where_none_are_said(live: CommandLine) -> None:
    done = live.json("institution", "allow", "loja", "--to", "known")
    assert done == dict(name="loja", payees="known", acts_now=True)
    allowed = read_account(live)["allowed"]
    assert allowed == dict(NOTHING, transfer_cents=10_000, transfers_day_cents=100_000, to="known", by=allowed["by"])
    assert "give at least one" in live.refusal("institution", "allow", "loja")
    refused = live.run("institution", "allow", "loja", "--to", "everybody")
    assert (refused.returncode != 0, refused.stdout) == (True, "")


def test_a_raise_waits_an_hour_and_is_lowered_at_once(live: CommandLine, database: Addresses) -> None:
    asyncio.run(propose(database, hours_ago=0))
    done = live.run("institution", "allow", "loja", "--refunds", "600", "--json")
    made = json.loads(done.stdout)
    assert f"nothing is changed yet: another operator runs `pixconnect proposal confirm {made['code']}`" in done.stderr
    assert (made["refunds_day_cents"], made["acts_now"]) == (600, False)
    assert datetime.fromisoformat(made["confirmable_at"]) > SystemClock().now()
    assert len(read_account(live)["waiting"]) == 1, "what was proposed before is forgotten"
    refused = live.refusal("proposal", "confirm", made["code"], PIXCONNECT_OPERATOR="rui")
    assert "may be confirmed from" in refused
    assert read_account(live)["allowed"]["refunds_day_cents"] == 0
    assert live.json("institution", "allow", "loja", "--refunds", "0")["acts_now"]
    assert read_account(live).get("waiting") is None


def test_another_operator_confirms_what_was_proposed(live: CommandLine, database: Addresses) -> None:
    asyncio.run(propose(database, hours_ago=2))
    proposed = "allow (payees own, refunds_day R$ 5,00, transfer R$ 0,00, transfers_day R$ 0,00)"
    (waiting,) = read_account(live)["waiting"]
    assert waiting.startswith(f"{proposed}, proposed by ana, code ")
    (listed,) = read_waiting(live)
    assert (listed["subject"], listed["act"], listed["proposed_by"]) == ("institution loja", "allow", "ana")
    confirm = ("proposal", "confirm", listed["code"])
    assert "another operator" in live.refusal(*confirm, PIXCONNECT_OPERATOR="ana")
    # Another name alone is no other person.
    refused = live.refusal(*confirm, PIXCONNECT_OPERATOR="leo")
    assert "it was proposed by the database login pixconnect_login, which confirms" in refused
    assert read_account(live)["allowed"]["refunds_day_cents"] == 0
    done = live.run(*confirm, PIXCONNECT_OPERATOR="rui")
    assert done.returncode == 0, done.stderr
    assert f"confirmed: {proposed}" in done.stdout
    assert read_account(live)["allowed"] == dict(NOTHING, refunds_day_cents=500, by="rui")
    assert read_newest_verb(live) == ("rui", "proposal confirm", "institution loja")
    (newest,) = live.json("audit", "list", "--limit", "1")["entries"]
    assert (newest["login"], newest["door"]) == (SECOND_LOGIN_ROLE, "pixconnect_operator")
    assert "no proposal with the code" in live.refusal(*confirm, PIXCONNECT_OPERATOR="rui")


def test_what_pays_no_charge_is_listed(live: CommandLine, alone: str) -> None:
    (listed,) = live.json("institution", "unmatched", "loja", "--days", "1")["unmatched"]
    told = {name: listed[name] for name in ("holder", "end_to_end_id", "amount_cents", "returned_cents")}
    assert told == dict(holder=1, end_to_end_id=alone, amount_cents=700, returned_cents=0)
    assert listed.get("given_back") is None, "its operator has not asked for that"
    shown = live.run("institution", "unmatched", "loja").stdout
    assert alone in shown


def test_all_accounts_are_paused_by_one_line(live: CommandLine, database: Addresses) -> None:
    done = live.run("institution", "pause", "--all", PIXCONNECT_OPERATOR="ana")
    assert (done.returncode, done.stdout) == (0, "loja is paused\n"), done.stderr
    assert (read_account(live)["state"], read_newest_verb(live)) == ("paused", ("ana", "institution pause", "institution loja"))
    closed = "set session_replication_role = replica; update pixconnect.institution_account set state = 'closed'"
    execute(database.owner_url, closed)
    done = live.run("institution", "pause", "--all")
    assert (done.returncode, done.stdout) == (0, "no account\n"), done.stderr
