"""``pixconnect case`` in live mode: two operators adjust, undo and close."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service.sweep import post_opening
from pixconnect.platform.adapters.system import SystemClock
from support.account_shop import open_shop
from support.case_orders import open_case_of_order
from support.command_line import LIVE, CommandLine
from support.fake_institution import FakeInstitution
from support.postgres import Addresses, execute_as_owner, make_live
from support.service import FakeClock, open_service
from support.statement_files import make_ofx, make_ofx_line

pytestmark = pytest.mark.long

_CASES = """
    insert into kept_case (kind, institution_id, holder_id, name, amount_cents, facts, since) values
        ('day', {account}, {house}, '2026-07-01', -300, 'its balances and lines disagree', now()),
        ('day', {account}, null, '2026-07-02', -80, 'line F1 of -R$ 0,80, fee, not posted: TARIFA PIX', now()),
        ('day', {account}, null, '2026-07-03', -80, 'line F2 of -R$ 0,80, fee, not posted: tarifa pix', now()),
        ('day', {account}, null, '2026-07-04', 500, 'line W1 of R$ 5,00, wire, not posted: TED', now())
"""
_EARLIER = """
    insert into line_answer (institution_id, item_id, reason, answer, proposal_id, answered_at)
    select institution_id, item_id, reason, answer, proposal_id, answered_at - make_interval(days => days)
    from line_answer cross join (values (91), (45)) as earlier (days) where answer = 'aside'
"""


async def _open_cases(database: Addresses) -> None:
    """An account with differences: a day, two fees of one price list, and a wire transfer."""
    await make_live(database)
    clock = FakeClock(datetime(2026, 6, 30, 12, tzinfo=UTC))
    async with open_service(database, clock=clock, is_sandbox=False, has_rail=False) as service:
        there = FakeInstitution(clock)
        there.balance_cents = 10_000
        shop = await open_shop(service, there)
        await post_opening(service.context, shop.account)
        await execute_as_owner(database, _CASES.format(account=shop.account.id, house=shop.house.holder_id))


@pytest.fixture
def live(database: Addresses, tmp_path: Path) -> CommandLine:
    asyncio.run(_open_cases(database))
    return CommandLine(database, tmp_path, **LIVE)


def _show(live: CommandLine, case_id: int = 1) -> dict[str, Any]:
    return live.json("case", "show", str(case_id))


def _adjust(live: CommandLine, *words: str) -> dict[str, Any]:
    return live.json("case", "adjust", "1", "--operator", "ana", *words)


def _read_code(live: CommandLine) -> str:
    """As the confirming operator reads it."""
    return _show(live)["waiting"].rpartition(" ")[2]


def test_two_operators_adjust_a_day_and_undo_it_again(live: CommandLine) -> None:
    proposed = _adjust(live, "--kind", "bank_error")
    assert (proposed["act"], proposed["direction"], proposed["amount_cents"]) == ("adjust", "OUT", 300)
    waiting = _show(live)["waiting"]
    assert ("amount R$ 3,00" in waiting, "proposed by ana, code " in waiting) == (True, True)
    assert "must not begin with console" in live.refusal("proposal", "confirm", "any", "--operator", "console-ana")
    for same in ("ana", "Ana @elsewhere"):
        assert "another operator confirms" in live.refusal("proposal", "confirm", _read_code(live), "--operator", same)
    assert "adjustments" not in _show(live) or _show(live)["adjustments"] == []
    confirm = ("proposal", "confirm", "--operator", "bia")
    assert "out: no line F9 waits" in live.refusal("case", "answer", "1", "--out", "F9")
    assert live.run(*confirm, code := _read_code(live)).returncode == 0
    assert f"no proposal with the code {code} waits" in live.refusal(*confirm, code)
    shown = _show(live)
    (made,) = shown["adjustments"]
    assert (shown["ended_as"], shown["ended_by"], shown.get("waiting")) == ("adjusted", "bia", None)
    assert (made["proposed_by"], made["confirmed_by"], made["amount_cents"]) == ("ana", "bia", 300)
    # While it is open, the holder cannot leave the account, and operators cannot forget it.
    assert "cannot be removed" in live.refusal("institution", "remove", "loja")
    told = live.run("verify", "--rule", "difference_is_nothing", "--again-after-s", "0", "--json")
    assert (told.returncode, '"found":"300"' in told.stdout) == (7, True), told.stderr
    _adjust(live, "--kind", "found", "--undo", str(made["id"]))
    assert live.run(*confirm, _read_code(live)).returncode == 0
    assert [one.get("undoes") for one in _show(live)["adjustments"]] == [None, made["id"]]
    _prove(live)


def test_what_comes_from_one_cause_ends_by_one_decision(live: CommandLine) -> None:
    live.json("case", "note", "2", "the fee table of July", "--operator", "ana")
    close = ("case", "close", "--reason", "the fees of July are charged on another account", "--operator", "ana")
    refused = live.refusal(*close, "--facts", "tarifa")
    assert "kind" in refused.lower()
    assert "not both" in live.refusal(*close, "2", "--kind", "day")
    assert "none is named" in live.refusal(*close, "--kind", "day", "--facts", "BOLETO")
    ended = live.json(*close, "--kind", "day", "--facts", "Tarifa")["cases"]
    assert [(one["name"], one["ended_as"], one["ended_by"]) for one in ended] == [
        ("2026-07-02", "closed", "ana"),
        ("2026-07-03", "closed", "ana"),
    ]
    assert [one["name"] for one in live.json("case", "list")["cases"]] == ["2026-07-01", "2026-07-04"]
    live.json("case", "close", "4", "--reason", "returned by the bank", "--operator", "bia")
    rows = live.json("audit", "list")["entries"][:3]
    assert [(row["operator"], row["verb"], row["subject"]) for row in rows] == [
        ("bia", "case close", "case 4"),
        ("ana", "case close", "2 cases from 2"),
        ("ana", "case note", "case 2"),
    ]
    _prove(live)


def _prove(live: CommandLine) -> None:
    """The decisions are found in the audit, each by its own verb."""
    rules = ("what_was_decided_is_audited", "approval_is_audited", "difference_is_nothing")
    asked = [word for rule in rules for word in ("--rule", rule)]
    told = live.json("verify", *asked, "--again-after-s", "0")
    assert (told["findings"], told["rules"]) == ([], len(rules))


async def _open_case_of_order(database: Addresses) -> None:
    await make_live(database)
    clock = FakeClock(SystemClock().now() - timedelta(days=20))
    async with open_service(database, clock=clock, is_sandbox=False, has_rail=False) as service:
        shop = await open_shop(service, FakeInstitution(clock, InstitutionTraits(sends=("KEY",))))
        await open_case_of_order(shop)


def test_two_operators_answer_what_lines_of_a_file_are_and_have_it_remembered(
    live: CommandLine, database: Addresses, tmp_path: Path
) -> None:
    for own in ("X1=transfer:9", "X1"):
        assert "ours: no line X1 waits" in live.refusal("case", "answer", "1", "--ours", own, "--operator", "ana")
    assert [_show(live)[name] for name in ("files", "balances", "lines", "answers")] == [[], [], [], []]
    lines = [make_ofx_line(item_id=name, at="20260701", amount="5.00", memo=f"SALDO {name}") for name in ("S1", "S2")]
    file = tmp_path / "july.ofx"
    file.write_bytes(make_ofx(*lines, first="20260701", last="20260701", opening="100.00", closing="105.00"))
    live.json("institution", "statement", "loja", str(file), "--confirm", "--operator", "ana")
    shown = _show(live)
    assert [one["name"] for one in shown["files"]] == ["july.ofx"]
    assert [(one["item_id"], one["answer"], one["posts_cents"]) for one in shown["answers"]] == [
        ("S1", "counts", 500), ("S1", "aside", 0), ("S2", "counts", 500), ("S2", "aside", 0)
    ]  # fmt: skip
    told_to_people = live.run("case", "show", "1").stdout
    assert all(f"\n{name}:\n" in told_to_people for name in ("files", "balances", "lines", "answers"))
    live.json("case", "answer", "1", "--counts", "S1", "--aside", "S2", "--operator", "ana")
    confirmed = live.run("proposal", "confirm", "--operator", "bia", _read_code(live))
    assert confirmed.returncode == 0, confirmed.stderr
    told = live.json("institution", "days", "loja", "--lines", "2026-07-01")["lines"]
    assert {one["item_id"]: one["status"] for one in told} == {"S1": "not_yet_read", "S2": "no_money"}
    remember = ("case", "remember", "loja", "S2", "--operator", "ana")
    assert "needs 3, the last 90 days after the first" in live.refusal(*remember)
    asyncio.run(execute_as_owner(database, _EARLIER))
    (rehearsed,) = live.json("case", "patterns", "loja")["patterns"]
    assert (rehearsed["form"], rehearsed["days_count"]) == ("saldo s#", 3)
    code = live.json(*remember)["code"]
    assert "another operator confirms" in live.refusal("proposal", "confirm", code, "--operator", "ana")
    assert live.run("proposal", "confirm", code, "--operator", "bia").returncode == 0
    (remembered,) = live.json("case", "patterns", "loja")["patterns"]
    forget = ("case", "forget", "loja", str(remembered["pattern"]), "--operator", "cida")
    assert live.run(*forget).returncode == 0
    assert "remembers none" in live.refusal(*forget)
    assert live.json("case", "patterns", "loja")["patterns"] == []
    _prove(live)


@pytest.fixture
def live_with_order(database: Addresses, tmp_path: Path) -> CommandLine:
    asyncio.run(_open_case_of_order(database))
    return CommandLine(database, tmp_path, **LIVE)


def test_an_order_ends_by_a_file_and_two_operators(live_with_order: CommandLine, tmp_path: Path) -> None:
    live = live_with_order
    letter, too_long = tmp_path / "letter.txt", tmp_path / "long"
    letter.write_text("we have no such Pix")
    too_long.write_bytes(b" " * (1024 * 1024 + 1))
    (listed,) = live.json("case", "list", "--kind", "order")["cases"]
    close = ("case", "close", str(listed["id"]), "--operator", "ana")
    assert "--reason: required" in live.refusal(*close)
    for words in (
        ("--as", "never"),
        ("--evidence", str(letter)),
        ("--as", "never", "--evidence", str(letter), "--reason", "x"),
    ):
        assert "takes one case, and --evidence" in live.refusal(*close, *words)
    assert str(too_long) in live.refusal(*close, "--as", "never", "--evidence", str(too_long))
    assert "an order that is open" in live.refusal(*close, "--reason", "lost")
    proposed = live.json(*close, "--as", "never", "--evidence", str(letter))
    assert (proposed["act"], proposed["claim"], proposed["evidence_name"]) == ("decide", "never", "letter.txt")
    confirm = ("proposal", "confirm", proposed["code"])
    assert "another operator confirms" in live.refusal(*confirm, "--operator", "ana")
    assert live.json("case", "show", str(listed["id"]))["waiting"].endswith(f"code {proposed['code']}")
    assert live.run(*confirm, "--operator", "bia").returncode == 0
    shown = live.json("case", "show", str(listed["id"]))
    assert (shown["ended_as"], shown["ending"].startswith("never, by ana and bia, on letter.txt of 19 octets")) == (
        "decided",
        True,
    )
    for rule in ("order_ended_by_its_case", "approval_is_audited", "what_was_decided_is_audited", "step_agrees_with_its_order"):
        told = live.run("verify", "--rule", rule, "--again-after-s", "0")
        assert told.returncode == 0, told.stdout + told.stderr
