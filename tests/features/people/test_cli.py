"""``pixconnect person``: each command of its guide is run."""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from pixconnect.kernel.flows.incoming import receive_credit
from support.books import chain_all
from support.command_line import CommandLine
from support.postgres import Addresses
from support.service import FakeClock, credit_report, open_holder, open_service
from support.verifier import be_started

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "answer-a-persons-request.md"
PERSON = "12345678909"


def commands_of_guide(folder: Path) -> Iterator[list[str]]:
    for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL):
        for line in block.splitlines():
            yield [str(folder / word) if word.endswith(".jsonl") else word for word in shlex.split(line)[1:]]


@pytest.fixture
async def paid_long_ago(database: Addresses) -> None:
    async with open_service(database, clock=FakeClock(datetime(2019, 1, 7, 15, tzinfo=UTC))) as service:
        await be_started(service)
        await open_holder(service)
        await receive_credit(service.context, structs.replace(credit_report(service), payer_message="pelo bolo"))
        service.clock.real = datetime.now(UTC)
        await receive_credit(service.context, structs.replace(credit_report(service), report_id="r2"))
        await chain_all(service.context)


def test_what_the_guide_says_is_done_here(paid_long_ago: None, pixconnect: CommandLine, tmp_path: Path) -> None:
    """Searching, erasing and restoring; then verify finds nothing."""
    export, audit, erase, again = commands_of_guide(tmp_path)
    written = pixconnect.json(*export)
    file = tmp_path / "person.jsonl"
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    assert (written["lines"], file.stat().st_mode & 0o777) == (len(lines), 0o600)
    assert pixconnect.run(*export[:-2]).stdout.encode() == file.read_bytes()
    assert [(line["kind"], line["texts"].get("message")) for line in lines if line["kind"] == "transfer"] == [
        ("transfer", "pelo bolo"),
        ("transfer", None),
    ]
    assert [act["verb"] for act in pixconnect.json(*audit)["entries"]] == ["person export"] * 2
    erased = pixconnect.json(*erase)
    assert erased["erased"] == {"transfer": 1, "refund": 0, "charge": 0, "infraction": 0}
    assert [(stays["kept_as"], stays["count"]) for stays in erased["stays"]] == [("counterparty", 1)]
    assert erased["exported_at"]
    # Both are named, since the second may be old enough when it is needed.
    assert len((tmp_path / "erased.jsonl").read_bytes().splitlines()) == 2
    assert PERSON not in (tmp_path / "erased.jsonl").read_text()
    assert pixconnect.json(*again)["erased"]["transfer"] == 0
    assert pixconnect.run("verify", "--rule", "entries_are_as_chained", "--again-after-s", "0").returncode == 0
    shown = pixconnect.run(*erase).stdout
    assert "What stays:" in shown
    assert "Lei 8.078/1990" in shown


def test_a_refusal_says_what_to_name(paid_long_ago: None, pixconnect: CommandLine, tmp_path: Path) -> None:
    note = str(tmp_path / "note")
    assert "--tax-id: name a person" in pixconnect.refusal("person", "erase")
    assert "--note: name a file" in pixconnect.refusal("person", "erase", "--tax-id", PERSON)
    assert "--yes: required" in pixconnect.refusal("person", "erase", "--tax-id", PERSON, "--note", note)
    hidden = pixconnect.refusal("person", "erase", "--tax-id", "***.456.789-**", "--note", note, "--yes")
    assert "--tax-id: must be a CPF of 11 digits" in hidden
    file = tmp_path / "person"
    assert "--tax-id: must be a CPF" in pixconnect.refusal("person", "export", "--tax-id", "1", "--file", str(file))
    # Nothing is left that would be exported, or prevent the same command with the right digits.
    assert not file.exists()
    nowhere = str(tmp_path / "none" / "note")
    assert "nothing was erased" in pixconnect.refusal("person", "erase", "--tax-id", PERSON, "--note", nowhere, "--yes")
    assert "--again: /dev/zero: it is no regular file" in pixconnect.refusal("person", "erase", "--again", "/dev/zero")
    (tmp_path / "broken").write_text('{"kind":"holder","id":1,"holder_id":1}\n')
    assert "line 1: Invalid enum value 'holder'" in pixconnect.refusal("person", "erase", "--again", str(tmp_path / "broken"))
