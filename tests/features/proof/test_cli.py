"""``pixconnect verify`` as an operator uses it."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.features.proof.service.verify import RULES
from support.command_line import CommandLine
from support.postgres import Addresses, as_owner
from support.service import open_holder, open_service
from support.verifier import be_started, chain_deposit
from support.waiting import wait_until


async def fund(database: Addresses) -> int:
    async with open_service(database) as service:
        await be_started(service)
        return (await open_holder(service, funds_cents=1_000)).holder_id


async def execute(database: Addresses, *statements: str) -> None:
    async with as_owner(database) as connection:
        for statement in statements:
            await connection.execute(statement)


async def take_a_cent(database: Addresses) -> None:
    changed = "update balance set available_cents = 999, settlement_cents = 1"
    await execute(database, "set session_replication_role = replica", changed)


def test_books_that_are_right_break_no_rule(database: Addresses, pixconnect: CommandLine) -> None:
    asyncio.run(fund(database))
    told = json.loads(pixconnect.run("verify", "--whole", "--again-after-s", "0", "--json").stdout)
    # Test servers are not durable on purpose.
    assert {each["rule"] for each in told["findings"]} == {"server_keeps_what_it_wrote"}
    # It has no rail, no accounts at institutions, and no kept heads.
    asked = [rule for rule in RULES if rule.of not in ("rail", "accounts", "heads")]
    assert (told["rules"], told["broken"], told["holders"], told["unchained"]) == (len(asked), 1, 1, 1)
    assert told["unchained_audit"] == 2


def test_a_cent_that_is_gone_is_found_with_what_to_do(database: Addresses, pixconnect: CommandLine) -> None:
    holder_id = asyncio.run(fund(database))
    asyncio.run(take_a_cent(database))
    ended = pixconnect.run("verify", "--whole", "--again-after-s", "0", "--json")
    assert ended.returncode == ExitStatus.BROKEN == 7
    told = json.loads(ended.stdout)
    finding = next(each for each in told["findings"] if each["rule"] == "balance_is_sum")
    assert (finding["holder_id"], finding["expected"], finding["found"]) == (
        holder_id,
        "1000 0 0 0 0 -1000 0",
        "999 0 0 0 1 -1000 0",
    )
    assert finding["meaning"]
    assert finding["do"]
    assert told["broken"] == len({each["rule"] for each in told["findings"]})
    assert "balance_is_sum" in pixconnect.run("verify", "--rule", "balance_is_sum", "--again-after-s", "0").stdout
    assert "there is no rule" in pixconnect.refusal("verify", "--rule", "sums")


def test_a_rule_that_cannot_be_asked_is_none_that_holds(database: Addresses, pixconnect: CommandLine) -> None:
    asyncio.run(execute(database, "alter table refused_credit rename column refusal_code to code"))
    try:
        asked = ("--rule", "what_was_refused_is_not_here", "--rule", "balance_is_sum")
        ended = pixconnect.run("verify", *asked, "--again-after-s", "0")
        whole = pixconnect.run("verify", "--whole", "--again-after-s", "0")
    finally:
        asyncio.run(execute(database, "alter table refused_credit rename column code to refusal_code"))
    assert ended.returncode == ExitStatus.UNAVAILABLE == 3
    assert "what_was_refused_is_not_here: not_checkable" in ended.stdout
    assert "1 rules could not be asked" in ended.stderr
    # What this installation does not have is no failure of the check.
    without_rail = pixconnect.run("verify", "--rule", "rail_settled_the_same", "--again-after-s", "0")
    assert (without_rail.returncode, "rail_settled_the_same: not_checkable" in without_rail.stdout) == (0, True)
    assert whole.returncode == ExitStatus.BROKEN
    assert "! tables_are_as_made: table refused_credit" in whole.stdout


def test_no_name_in_a_finding_looks_like_a_line_of_ours(database: Addresses, pixconnect: CommandLine) -> None:
    asyncio.run(execute(database, 'create table "mine\n! balance_is_sum" ()'))
    try:
        told = pixconnect.run("verify", "--rule", "tables_are_as_made", "--again-after-s", "0").stdout
    finally:
        asyncio.run(execute(database, 'drop table "mine\n! balance_is_sum"'))
    assert "! tables_are_as_made: table mine?! balance_is_sum" in told.splitlines()


def test_a_run_without_its_database_says_that_it_did_not_look(database: Addresses, pixconnect: CommandLine) -> None:
    asyncio.run(fund(database))
    asyncio.run(take_a_cent(database))  # so that its next look waits
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(pixconnect.run, "verify", "--rule", "balance_is_sum", "--again-after-s", "3")
        wait_until(lambda: asyncio.run(end_readers(database)) > 0, "a reader was there", every_s=0.1)
        ended = running.result()
    assert ended.returncode == ExitStatus.UNAVAILABLE == 3
    assert "run it again" in ended.stderr
    assert "Traceback" not in ended.stderr


async def end_readers(database: Addresses) -> int:
    connection = await asyncpg.connect(database.owner_url)
    try:
        return await connection.fetchval("""
            select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and application_name = 'pixconnect verify'
        """)
    finally:
        await connection.close()


@pytest.mark.long
def test_heads_and_entries_are_held_against_it(database: Addresses, pixconnect: CommandLine, tmp_path: Path) -> None:
    holder_id, entry_id = asyncio.run(chain_deposit(database))
    of_holder = ("--holder-id", str(holder_id))
    kept, other = tmp_path / "heads.jsonl", tmp_path / "other.jsonl"
    assert pixconnect.json("verify", "heads", "write", str(kept)) == {"file": str(kept), "holders": 1}
    assert "is there already" in pixconnect.refusal("verify", "heads", "write", str(kept))
    printed = pixconnect.run("verify", "heads", "write")
    # All but the last, which has the time of the request.
    assert printed.stdout.splitlines()[:-1] == kept.read_text().splitlines()[:-1], printed.stderr
    look = ("verify", "--rule", "heads_are_as_kept", "--again-after-s", "0", "--heads")
    assert pixconnect.json(*look, str(kept))["rules"] == 1
    other.write_bytes(kept.read_bytes().replace(b'"head":"', b'"head":"00')[:-2])
    assert f"{other}: line 1: " in pixconnect.refusal(*look, str(other))
    assert "No such file" in pixconnect.refusal(*look, str(tmp_path / "none"))
    head, *others = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [each["chain"] for each in others] == ["audit", "entries"]
    other.write_text(json.dumps(head | {"head": "0" * 64}))
    ended = pixconnect.run(*look, str(kept), "--heads", str(other), "--json")
    assert ended.returncode == ExitStatus.BROKEN
    (finding,) = json.loads(ended.stdout)["findings"]
    assert (finding["ids"], finding["expected"], finding["found"]) == (["link 1"], "0" * 64, head["head"])
    told = pixconnect.json("verify", "entry", str(entry_id), *of_holder)
    assert (told["is_as_chained"], told["head"]) == (True, head["head"])
    assert "has no entry 77, or not yet" in pixconnect.refusal("verify", "entry", "77", *of_holder)
    asyncio.run(execute(database, "set session_replication_role = replica", "update ledger_entry set amount_cents = 999"))
    assert pixconnect.run("verify", "entry", str(entry_id), *of_holder).returncode == ExitStatus.BROKEN
