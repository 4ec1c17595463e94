"""``pixconnect institution statement`` and ``days``, in live mode, beside a database."""

import asyncio
import csv
import io
import json
from datetime import date
from pathlib import Path

import pytest

from support.account_shop import open_shop
from support.cnab import CnabLine, CnabLot, make_cnab
from support.command_line import LIVE, CommandLine
from support.fake_institution import FakeInstitution
from support.postgres import Addresses, make_live
from support.service import open_service
from support.statement_files import make_ofx, make_ofx_line


async def add_account(database: Addresses) -> None:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as service:
        there = FakeInstitution(service.clock)
        there.balance_cents = 10_000
        service.clock.advance(days=-10)
        await open_shop(service, there)


@pytest.fixture
def live(database: Addresses, tmp_path: Path) -> CommandLine:
    asyncio.run(add_account(database))
    return CommandLine(database, tmp_path, **LIVE)


def write(tmp_path: Path, content: bytes) -> str:
    file = tmp_path / "july.ofx"
    file.write_bytes(content)
    return str(file)


def test_a_file_is_recorded_and_its_days_are_told(live: CommandLine, tmp_path: Path) -> None:
    lines = [
        make_ofx_line(item_id="F1", at="20260701", amount="-1.00", memo="TARIFA"),
        make_ofx_line(item_id="N1", at="20260701", amount="5.00", memo="=PIX RECEBIDO"),
    ]
    file = write(tmp_path, make_ofx(*lines, first="20260630", last="20260701", closing="104.00", opening="100.00"))
    preview = live.run("institution", "statement", "loja", file, "--json")
    assert (preview.returncode, preview.stderr.count("--confirm")) == (1, 1)
    told = json.loads(preview.stdout)
    assert told["account"] == "bank 0341, branch 0001, number 12345-6, account type checking"
    assert (told["opening_cents"], told["opening_is_at_the_end_of"]) == (10_000, "2026-06-29")
    assert (told["closing_cents"], told["closing_is_at_the_end_of"]) == (10_400, "2026-07-01")
    assert (told["would_post"], told["would_post_from"]) == (["fee OUT 100"], "2026-07-01")
    assert "would_post: fee OUT R$ 1,00\n" in live.run("institution", "statement", "loja", file).stdout
    assert live.json("institution", "days", "loja", "--lines", "2026-07-01")["lines"] == []
    first = live.json("institution", "statement", "loja", file, "--confirm")
    assert (first["new_count"], first["known_count"], first["posted_count"], first["unmatched_count"]) == (2, 0, 1, 1)
    assert [(day["day"], day["status"], day["closing_cents"]) for day in first["days"]] == [
        ("2026-06-30", "closed", 10_000),
        ("2026-07-01", "closed_with_cases", 10_400),
    ]
    again = live.json("institution", "statement", "loja", file)
    assert (again["new_count"], again["known_count"], again["posted_count"]) == (0, 2, 0)
    done = live.run("institution", "statement", "loja", file)
    assert (done.returncode, "2026-07-01" in done.stdout) == (0, True)
    audited = next(iter(live.json("audit", "list").values()))[0]
    assert (audited["verb"], audited["subject"]) == ("institution statement", "institution loja")


def test_days_are_listed_and_their_lines_are_values_for_spreadsheets(live: CommandLine, tmp_path: Path) -> None:
    line = make_ofx_line(item_id="N1", at="20260701", amount="5.00", memo="=PIX RECEBIDO")
    file = write(tmp_path, make_ofx(line, first="20260701", last="20260701", opening="100.00", closing="105.00"))
    live.json("institution", "statement", "loja", file, "--confirm")
    days = live.json("institution", "days", "loja", "--until", "2026-07-02", "--count", "2")["days"]
    assert [(day["day"], day["status"], day["unmatched_there"]) for day in days] == [
        ("2026-07-01", "closed_with_cases", 1),
        ("2026-07-02", "open", 0),
    ]
    assert (
        days[0]["gross_cents"] - days[0]["fees_cents"] - days[0]["returns_cents"] + days[0]["others_cents"]
        == days[0]["net_cents"]
    )
    told = live.run("institution", "days", "loja", "--until", "2026-07-01", "--count", "1", "--csv").stdout
    (row,) = csv.DictReader(io.StringIO(told))
    assert (row["day"], row["closing_cents"]) == ("2026-07-01", "10500")
    told = live.run("institution", "days", "loja", "--lines", "2026-07-01", "--csv").stdout
    (row,) = csv.DictReader(io.StringIO(told))
    assert (row["item_id"], row["status"], row["text"]) == ("N1", "not_yet_read", "'=PIX RECEBIDO")


def test_a_cnab_file_closes_its_day(live: CommandLine, tmp_path: Path) -> None:
    lot = CnabLot(
        lines=[CnabLine(day=date(2026, 7, 1), amount_cents=-150, category="105", history="TARIFA", document="")],
        opening_on=date(2026, 6, 30),
        closing_on=date(2026, 7, 1),
    )
    file = write(tmp_path, make_cnab(lot))
    told = live.json("institution", "statement", "loja", file, "--confirm")
    assert (told["new_count"], told["posted_count"], told["days"][-1]["status"]) == (1, 1, "closed")
    assert live.json("institution", "statement", "loja", file)["known_count"] == 1


def test_what_a_file_does_not_prove_is_said_when_it_is_read(live: CommandLine, tmp_path: Path) -> None:
    line = make_ofx_line(at="20260701", amount="-1.00", memo="TARIFA")
    file = write(tmp_path, make_ofx(line, first="20260705", last="20260705", closing="99.00"))
    (note,) = live.json("institution", "statement", "loja", file, "--confirm")["notes"]
    assert note.endswith("it proves none of those days; read a file that covers them")
    assert note in live.run("institution", "statement", "loja", file).stdout.replace("\n", " ")


def test_what_cannot_be_read_is_refused_by_its_line(live: CommandLine, tmp_path: Path) -> None:
    bad = write(tmp_path, make_ofx(make_ofx_line(amount="1.234")))
    refused = live.refusal("institution", "statement", "loja", bad)
    assert f"{bad}: line 17: TRNAMT: '1.234' is no amount" in refused
    assert "NAME: there is no account other" in live.refusal("institution", "statement", "other", bad)
    assert "No such file" in live.refusal("institution", "statement", "loja", str(tmp_path / "none"))
    assert "NAME: there is no account other" in live.refusal("institution", "days", "other")
