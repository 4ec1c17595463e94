"""``pixconnect holder`` as an operator uses it."""

from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.postgres import Addresses


@pytest.fixture
def pixconnect(database: Addresses, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)


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


def test_without_json_a_result_is_lines_of_names_and_values(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    lines = pixconnect.run("holder", "show", "--holder-id", holder_id).stdout.splitlines()
    assert lines[0] == f"holder_id: {holder_id}"
    assert "able_to_deposit: true" in lines


def test_what_is_wrong_is_said_in_one_line(pixconnect: CommandLine) -> None:
    wrong_tax_id = ["--name", "x", "--tax-id", "52998224724", "--account-number", "1"]
    assert "tax_id: " in pixconnect.refusal("holder", "create", *wrong_tax_id)
    assert "there is no holder 404" in pixconnect.refusal("holder", "disable", "--holder-id", "404")
    assert "there is no database" in pixconnect.refusal("holder", "show", "--holder-id", "1", DATABASE_URL="")
    assert "secret key" in pixconnect.refusal("holder", "show", "--holder-id", "1", PIXCONNECT_SECRET_KEY="")
