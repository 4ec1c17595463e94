"""``pixconnect holder`` as an operator uses it."""

from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.postgres import Addresses


def test_a_holder_is_opened_limited_blocked_and_shut_out(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    shown = pixconnect.json("holder", "show", "--holder-id", holder_id)
    assert (shown["branch"], shown["account_number"], shown["able_to_withdraw"]) == ("0001", "1001", True)
    assert "transfer_limit" not in shown
    changes = ["--able-to-withdraw", "false", "--transfer-limit", "5000", "--day-limit", "none"]
    changed = pixconnect.json("holder", "set", "--holder-id", holder_id, *changes)
    assert (changed["able_to_withdraw"], changed["able_to_deposit"]) == (False, True)
    assert changed["transfer_limit"] == 5000
    assert "disabled_at" in pixconnect.json("holder", "disable", "--holder-id", holder_id)
    assert "disabled_at" not in pixconnect.json("holder", "enable", "--holder-id", holder_id)


@pytest.mark.parametrize("masked", ["529.982.247-25", "11.222.333/0001-81", "12.abc.345/01de-35"])
def test_a_tax_id_may_be_masked_as_people_write_it(pixconnect: CommandLine, masked: str) -> None:
    made = pixconnect.json("holder", "create", "--name", "Ana", "--tax-id", masked, "--account-number", "1")
    assert made["tax_id"] == "".join(mark for mark in masked.upper() if mark.isalnum())


def test_holders_are_listed_with_their_balances(pixconnect: CommandLine) -> None:
    assert pixconnect.run("holder", "list").stdout == "holders: none\n"
    first, second = pixconnect.create_holder("1001"), pixconnect.create_holder("1002")
    listed = pixconnect.json("holder", "list")["holders"]
    assert [str(holder["holder_id"]) for holder in listed] == [first, second]
    assert "available_funds: R$ 0,00" in pixconnect.run("holder", "show", "--holder-id", first).stdout
    assert pixconnect.run("holder", "show", "--holder-id", second, "--field", "account_number").stdout == "1002\n"
    assert (listed[0]["available_funds"], listed[0]["reserved_funds"], listed[0]["current_funds"]) == (0, 0, 0)
    assert listed[0]["deficit"] == pixconnect.json("holder", "show", "--holder-id", first)["deficit"] == 0
    (last,) = pixconnect.json("holder", "list", "--after", first, "--limit", "1")["holders"]
    assert last["account_number"] == "1002"


def test_without_json_a_result_is_lines_of_names_and_values(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    lines = pixconnect.run("holder", "show", "--holder-id", holder_id).stdout.splitlines()
    assert lines[0] == f"holder_id: {holder_id}"
    assert "able_to_deposit: true" in lines


def test_what_is_wrong_is_said_in_one_line(pixconnect: CommandLine) -> None:
    wrong_tax_id = ["--name", "x", "--tax-id", "52998224724", "--account-number", "1"]
    assert "--tax-id: " in pixconnect.refusal("holder", "create", *wrong_tax_id)
    assert "--holder-id: there is no holder 404" in pixconnect.refusal("holder", "disable", "--holder-id", "404")
    assert "there is no database" in pixconnect.refusal("holder", "show", "--holder-id", "1", DATABASE_URL="")
    assert "secret key" in pixconnect.refusal("holder", "show", "--holder-id", "1", PIXCONNECT_SECRET_KEY="")


def test_in_live_mode_every_limit_is_named_or_none_is_wanted(database: Addresses, tmp_path: Path) -> None:
    live = CommandLine(database, tmp_path, PIXCONNECT_MODE="live")
    create = ["holder", "create", "--name", "Maria", "--tax-id", "52998224725", "--account-number"]
    limits = ["--transfer-limit", "5000", "--day-limit", "none", "--night-limit", "1000"]
    assert "--transfer-limit: missing" in live.refusal(*create, "1")
    assert "--night-limit: missing" in live.refusal(*create, "1", *limits[:4])
    assert "must be from 0" in live.refusal(*create, "1", *limits[:5], "-1")
    made = live.json(*create, "1", *limits)
    assert (made["transfer_limit"], made.get("day_limit"), made["night_limit"]) == (5000, None, 1000)
    assert not {"transfer_limit", "day_limit", "night_limit"} & live.json(*create, "2", "--no-limits").keys()
    made = live.json(*create, "3", "--no-limits", *limits[4:])
    assert ("transfer_limit" in made, made["night_limit"]) == (False, 1000)


def test_in_the_sandbox_limits_may_be_named(pixconnect: CommandLine) -> None:
    create = ["holder", "create", "--name", "Maria", "--tax-id", "52998224725", "--account-number", "1"]
    made = pixconnect.json(*create, "--day-limit", "7")
    assert (made["day_limit"], "night_limit" in made) == (7, False)
