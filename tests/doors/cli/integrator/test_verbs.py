"""A holder's verbs, each against a running sandbox that these tests share."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from pixconnect.doors.cli import terminal
from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.kernel.rules.charge import ShownStatus
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.running.main import main
from pixconnect_client import Client
from support.installation import Installation

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("integrator")]

KEY = "settle@sandbox.pix.example"
DUE_NAME = "verbs0due00000000000000001"
Run = Callable[..., Any]


def test_a_charge_is_made_found_by_each_of_its_names_paid_and_watched(run: Run) -> None:
    words = ("charge", "create", "1000", "--external-id", "verbs-1", "--payer-name", "Ana", "--payer-tax-id")
    charge = run(*words, "52998224725")
    assert (charge["status"], charge["amount"], charge["payer"]["name"]) == ("PENDING", 1000, "Ana")
    assert run(*words, "529.982.247-25") == charge
    for name in (str(charge["id"]), "verbs-1", charge["transaction_identification"]):
        assert run("charge", "show", name) == charge
    assert run("pay", "verbs-1")["status"] == "CONFIRMED"
    assert run("charge", "watch", "verbs-1")["status"] == "APPROVED"
    assert charge["id"] in [one["id"] for one in run("charge", "list", "--status", "APPROVED")["charges"]]
    assert charge["id"] in [one["id"] for one in run("charge", "list")["charges"]]
    payment = run("charge", "payment", "verbs-1")
    assert payment["amount"] == 1000
    assert run("transfer", "show", payment["end_to_end_id"])["charge_external_id"] == "verbs-1"
    listed = {one["end_to_end_id"]: one.get("charge_external_id") for one in run("transfer", "list")["transfers"]}
    assert listed[payment["end_to_end_id"]] == "verbs-1"
    (found,) = run("find", "verbs-1")["found"]
    assert (found["end_to_end_id"], "settled_at" in found, "counterparty" in found) == (payment["end_to_end_id"], True, True)
    run("refund", "create", payment["end_to_end_id"], "--amount", "400", "--external-id", "verbs-part")
    assert run("refund", "watch", "verbs-part")["status"] == "RETURNED"
    assert run("charge", "show", "verbs-1")["amount_returned"] == 400
    assert run("transfer", "list", "--limit", "1")["transfers"][0]["amount_returned"] == 400
    failed = run("trigger", "refund.out.error")["payload"]["return_identification"]
    shown = run("refund", "show", failed)
    assert (shown["status"], shown["outcome_code"]) == ("ERROR", "AC03")
    assert run("find", failed)["found"][0]["outcome"] == f"AC03: {shown['outcome_reason']}"
    by_code = run("charge", "create", "5")
    assert run("pay", f" {by_code['emvqrcps']}\n")["amount"] == 5


def test_an_open_contest_is_shown_with_its_payment_and_its_charge(run: Run) -> None:
    run("trigger", "infraction.opened")
    (contest,) = run("infraction", "list", "--status", "OPEN", "--limit", "1")["infractions"]
    shown = [run("transfer", "show", contest["end_to_end_id"]), run("charge", "show", str(contest["charge_id"]))]
    shown += run("find", contest["end_to_end_id"])["found"]
    assert [each["open_infraction"] for each in shown] == [contest["id"]] * 3
    for name in (contest["external_id"], contest["transaction_identification"], _in_groups(contest["end_to_end_id"])):
        assert run("infraction", "show", name) == run("infraction", "show", str(contest["id"])), name


def _in_groups(name: str) -> str:
    return " ".join(name[begin : begin + 8] for begin in range(0, len(name), 8))


def test_who_gives_an_order_back_is_told_what_paid_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("charge", "create", "1000", "--external-id", "verbs-back-1")
    assert main(["refund", "create", "verbs-back-1"]) != 0
    assert "a charge has to be paid first" in capsys.readouterr().err
    paid = run("pay", "verbs-back-1")
    assert run("charge", "watch", "verbs-back-1")["status"] == "APPROVED"
    assert main(["refund", "create", "verbs-back-1"]) != 0
    assert f"`pixconnect refund create {paid['end_to_end_id']}`" in capsys.readouterr().err
    assert main(["refund", "create", "verbs-back-1", "--amount", "500", "--description", "meia troca"]) != 0
    right = f"`pixconnect refund create {paid['end_to_end_id']} --amount 500 --description 'meia troca'`"
    assert right in capsys.readouterr().err


def test_a_number_that_names_two_payments_refunds_neither(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    def pay(external_id: str) -> dict[str, Any]:
        run("charge", "create", "1000", "--external-id", external_id)
        run("pay", external_id, "--external-id")
        assert run("charge", "watch", external_id, "--external-id")["status"] == "APPROVED"
        return run("transfer", "show", run("charge", "payment", external_id, "--external-id")["end_to_end_id"])

    first = pay("verbs-two-1")
    second = pay(str(first["id"]))
    assert main(["refund", "create", str(first["id"])]) != 0
    refused = capsys.readouterr().err
    assert f"what paid it is given back by `pixconnect refund create {second['end_to_end_id']}`" in refused
    assert f"transfer {first['id']} by `pixconnect refund create {first['end_to_end_id']}`" in refused
    part = ["refund", "create", _in_groups(first["end_to_end_id"]), "--amount", "400", "--external-id", "verbs-earlier"]
    refund = run(*part)
    assert run(*part)["id"] == refund["id"]
    assert "refunded before" not in capsys.readouterr().err
    assert main(["refund", "create", first["end_to_end_id"], "--amount", "600"]) == 0
    assert f"refunded before: R$ 4,00 by refund {refund['id']}, " in capsys.readouterr().err


def test_a_charge_with_a_due_date_asks_for_less_early(run: Run) -> None:
    terms = ["--days-valid", "5", "--fine", "2%", "--interest", "1%/month", "--rebate", "100", "--discount", "0.5%/day"]
    payer = ["--payer-name", "Ana", "--payer-tax-id", "52998224725"]
    due_on = (datetime.now(SAO_PAULO) + timedelta(days=400)).date().isoformat()
    charge = run("charge", "create", "10000", "--due-on", due_on, *payer, *terms, "--external-id", DUE_NAME)
    assert (charge["status"], charge["amount"], charge["external_id"]) == (
        "PENDING",
        10000,
        charge["transaction_identification"],
    )
    assert run("charge", "show", DUE_NAME) == charge
    # The discounts of 400 days exceed the amount: a cent is left.
    assert run("pay", DUE_NAME)["amount"] == 1
    assert run("charge", "show", DUE_NAME)["amount"] == 1


def test_what_is_paid_twice_ends_badly(run: Run, sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    run("charge", "create", "700", "--external-id", "verbs-twice")
    run("pay", "verbs-twice")
    assert main(["pay", "verbs-twice"]) == ExitStatus.ENDED_BADLY
    assert "it was refused with BE17: no money moved; the charge has been paid already" in capsys.readouterr().err


def test_a_number_that_is_an_id_and_an_external_id_is_told_as_what_it_was_taken(
    run: Run, sandbox: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run("charge", "create", "100")
    # A test before this one has named a charge by a transfer's id.
    while main(["charge", "show", "--external-id", str(first["id"]), "--json"]) == 0:
        first = run("charge", "create", "100")
    name = str(first["id"])
    second = run("charge", "create", "100", "--external-id", name)
    capsys.readouterr()
    assert main(["charge", "show", name, "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["id"] == first["id"]
    assert f"the external_id of another, whose id is {second['id']}: --external-id takes that one" in told.err
    for words in (["--external-id", name], [name, "--external-id"]):
        assert run("charge", "show", *words)["id"] == second["id"]
    assert run("pay", "--external-id", name)["status"] == "CONFIRMED"
    assert run("charge", "show", name)["status"] == "PENDING"
    # No test names a charge by this number, as others do by small ones.
    assert main(["charge", "show", "--external-id", "9007199254740991"]) == ExitStatus.REFUSED


def test_charges_are_listed_status_by_status_in_the_servers_order(run: Run) -> None:
    run("charge", "create", "100")
    statuses = [one["status"] for one in run("charge", "list", "--limit", "2")["charges"]]
    assert statuses == sorted(statuses, key=get_args(ShownStatus).index)
    for status in {*statuses}:
        ordered = run("charge", "list", "--limit", "2", "--status", status)["charges"]
        assert ordered == [one for one in run("charge", "list", "--limit", "2")["charges"] if one["status"] == status]


def test_entries_that_are_dated_ahead_are_told_of(
    run: Run, sandbox: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = sandbox.sandbox
    with Client(demo["base_url"], demo["client_id"], demo["client_secret"]) as client:
        # A new holder, so its entries stay first.
        made = client.sandbox.open_holder()
    for name, value in (("API_URL", demo["base_url"]), ("CLIENT_ID", made.client_id), ("CLIENT_SECRET", made.client_secret)):
        monkeypatch.setenv(f"PIXCONNECT_{name}", value)
    # At noon, so that the day does not end meanwhile.
    ahead = (datetime.fromisoformat(run("clock")["now"]) + timedelta(days=2)).date().isoformat()
    run("clock", "set", f"{ahead}T12:00:00Z")
    run("receive", "321", "--key", made.key)
    assert [line["amount"] for line in run("statement")["lines"]] == [321], "it ends now by the sandbox's clock"
    assert run("statement", "--since", "today")["lines"] == run("statement", "--since", ahead)["lines"]
    today = run("transfer", "list", "--day", "today")
    assert [one["amount"] for one in today["transfers"]] == [321]
    for back in (["set", f"{ahead}T11:00:00Z"], ["reset"]):
        assert main(["clock", *back]) == 0
        assert f"to include them, use `pixconnect statement --until {ahead}`" in capsys.readouterr().err
    assert main(["statement", "--json"]) == 0
    told = capsys.readouterr()
    assert f"`pixconnect statement --until {ahead}` has them" in told.err
    assert json.loads(told.out)["lines"] == []
    assert run("statement", "--until", ahead)["lines"][-1]["amount"] == 321


def test_money_goes_out_and_comes_back(run: Run) -> None:
    before = run("balance")["available_funds"]
    sent = run("transfer", "create", "2550", KEY, "--external-id", "verbs-2")
    assert run("transfer", "watch", "verbs-2")["status"] == "CONFIRMED"
    assert run("transfer", "show", sent["end_to_end_id"])["status"] == "CONFIRMED"
    assert run("return", "verbs-2", "--amount", "50")["status"] == "RETURNED"
    received = run("receive", "500")
    refund = run("refund", "create", received["end_to_end_id"], "--amount", "200", "--external-id", "verbs-3")
    assert run("refund", "watch", "verbs-3")["status"] == "RETURNED"
    assert run("refund", "show", refund["return_identification"])["status"] == "RETURNED"
    assert refund["id"] in [one["id"] for one in run("refund", "list")["refunds"]]
    assert run("deposit", "7")["amount"] == 7
    moved = run("move", "fee", "OUT", "30", "--text", "Tarifa")
    assert (moved["amount"], moved["status"]) == (30, "POSTED")
    assert run("balance")["available_funds"] == before - 2550 + 50 + 500 - 200 + 7 - 30
    assert main(["move", "by_hand", "OUT", "99999999999"]) == ExitStatus.REFUSED
    to_account = ("--account", "99999004/0001/2001", "--name", "Ana", "--tax-id", "52998224725")
    failed = run("transfer", "create", "100", *to_account)
    assert main(["transfer", "watch", str(failed["id"]), "--timeout-s", "60"]) == ExitStatus.ENDED_BADLY
    assert run("transfer", "show", str(failed["id"]))["code"] == "AC03"
    listed = {one["id"]: one for one in run("transfer", "list")["transfers"]}
    assert {"ERROR", "CONFIRMED"} <= {one["status"] for one in listed.values()}
    assert listed[sent["id"]]["counterparty"] == sent["credit_party"]["name"]
    day = datetime.fromisoformat(sent["create_timestamp"]).astimezone(SAO_PAULO).date()
    for written in (f"{day}", f"{day:%d/%m/%Y}", f"{day:%d/%m}"):
        assert sent["id"] in {one["id"] for one in run("transfer", "list", "--day", written)["transfers"]}, written


def test_at_80_columns_each_transfer_is_a_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = run("transfer", "create", "1234567", KEY, "--external-id", "an order with a name that is long")
    run("receive", "500")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream=None: True)
    capsys.readouterr()
    assert main(["transfer", "list"]) == 0
    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].split()[:5] == ["id", "status", "amount", "counterparty", "external_id"]
    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if line.split()[0] == str(sent["id"])]
    assert "-R$ 12.345,67" in row


def test_a_transfer_that_waits_for_approval_says_so(run: Run) -> None:
    (known, *_) = run("find", str(run("charge", "create", "100")["transaction_identification"]))["found"]
    holder = ["holder", "set", "--holder-id", str(known["holder_id"]), "--approve-above"]
    assert main([*holder, "0"]) == 0
    sent = run("transfer", "create", "100", KEY)
    assert main([*holder, "none"]) == 0
    listed = {one["id"]: one.get("waits_for") for one in run("transfer", "list")["transfers"]}
    (found,) = run("find", sent["end_to_end_id"])["found"]
    assert [run("transfer", "show", str(sent["id"]))["waits_for"], listed[sent["id"]], found["waits_for"]] == ["operator"] * 3
    run("operator", "transfer", "refuse", str(sent["id"]))


def test_a_transfer_goes_to_what_a_qr_code_names(run: Run) -> None:
    # A code of another institution; `transfer create` pays codes of the sandbox.
    own = run("charge", "create", "300")
    assert main(["transfer", "create", "300", own["emvqrcps"]]) == ExitStatus.REFUSED


def test_a_statement_is_printed_and_written_whole_or_not_at_all(
    run: Run, sandbox: Installation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("receive", "500")
    lines = run("statement")["lines"]
    assert lines[-1]["amount"] == 500
    capsys.readouterr()
    assert main(["statement"]) == 0
    came_in = show_reais(sum(line["amount"] for line in lines if line["impact_type"] == "IN"))
    assert f" before; {came_in} in, " in capsys.readouterr().err
    written = tmp_path / "statement.csv"
    assert main(["statement", "-o", str(written)]) == 0
    assert len(list(csv.reader(io.StringIO(written.read_text())))) == len(lines) + 1
    assert list(tmp_path.glob("*.unfinished")) == []
    capsys.readouterr()
    assert main(["statement", "-o", "/dev/full", "--format", "csv"]) == ExitStatus.REFUSED
    assert "disk is full" in capsys.readouterr().err
    for words in (["-o", str(tmp_path / "absent" / "s.csv")], ["-o", str(tmp_path / "s")], ["--since", "soon"]):
        assert main(["statement", *words]) == ExitStatus.REFUSED
        assert capsys.readouterr().err.count("\n") == 1
    assert Path("/dev/full").is_char_device()


def test_a_statement_counts_suspect_payments_apart(run: Run, sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    def total() -> dict[str, int]:
        capsys.readouterr()
        assert main(["statement"]) == 0
        moved = re.findall(r"R\$ ([0-9.,]+) ([a-z ]+)", capsys.readouterr().err.split("; ")[1])
        return {way: int(re.sub("[.,]", "", reais)) for reais, way in moved}

    before = total()
    assert before.keys() <= {"in", "given back", "out"}
    held = run("trigger", "transfer.in.held")["payload"]
    assert total() == before | {"held as suspect": held["amount"]}
    demo = sandbox.sandbox
    with Client(demo["base_url"], demo["client_id"], demo["client_secret"]) as client:
        client.sandbox.judge_payment(held["end_to_end_id"], "release")
    assert run("transfer", "watch", held["end_to_end_id"])["status"] == "CONFIRMED"
    both = {"held as suspect": held["amount"], "no longer held": held["amount"]}
    assert total() == before | both | {"in": before["in"] + held["amount"]}


def test_a_payers_message_is_printed_with_its_transfer(run: Run, sandbox: Installation) -> None:
    demo, code = sandbox.sandbox, run("charge", "create", "5")["emvqrcps"]
    with Client(demo["base_url"], demo["client_id"], demo["client_secret"]) as client:
        paid = client.sandbox.pay(code, payer_message="mesa 4").end_to_end_id
    listed = {each["end_to_end_id"]: each for each in run("transfer", "list")["transfers"]}
    assert run("transfer", "show", paid)["message"] == listed[paid]["message"] == "mesa 4"


def test_the_clock_and_the_faults_are_turned(run: Run) -> None:
    before = run("clock")["now"]
    assert run("clock", "advance", "1m")["now"] > before
    assert run("clock", "set", "2099-01-01T00:00:00Z")["now"] > "2099-01-01"
    assert run("clock", "reset")["now"] < "2099-01-01"
    rule = {"effect": "reject:AC03", "match": {"operation": "submit"}, "times": 1}
    assert run("faults", "add", "reject:AC03", "--operation", "submit", "--times", "1") == {"rules": [rule]}
    assert run("faults", "list") == {"rules": [rule]}
    assert main(["faults", "clear"]) == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("charge create 10,00", "AMOUNT: must be a whole number; it is '10,00', which in cents is 1000"),
        ("charge create 1000 --key nobody@shop.example", "--key: "),
        ("charge crate", "crate: there is no such verb; did you mean create? `pixconnect charge --help` lists all"),
        ("charge show order-404", "there is no charge order-404 of this holder"),
        ("charge show ..", "externalId: '..' cannot be part of a URL path; look for it in a list"),
        ("transfer create 100", "TO: name a Pix key or a QR code, or an account by --account"),
        ("transfer create 100 nobody", "looks like no kind of Pix key"),
        ("transfer create 100 --account 1/2 --name A --tax-id 1", "--account: must be ISPB/BRANCH/NUMBER"),
        ("clock advance 1x", "SPAN: must be seconds, or such as 90s, 10m, 1d12h; it is '1x'"),
        ("faults add reject", "EFFECT: "),
        ("statement --since 2026-11-22 --until 2026-11-20", "--since: must not be after --until; it is '2026-11-22'"),
        ("statement --since 2999-01-01", "--since: must not be after now"),
        ("listen --forward-to nonsense", "--forward-to: must be an address such as http://localhost:3000/"),
        ("listen --forward-to localhost:99999", "--forward-to: must be"),
        ("balance --profile shop", "there is no profile shop; known: none"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    words: str, complaint: str, sandbox: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == ExitStatus.REFUSED
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert complaint in told.err
