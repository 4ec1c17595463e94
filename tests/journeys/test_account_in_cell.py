"""Real money in a second cell: an account there receives, sends and returns, and nobody who calls knows of cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from journeys.test_money_in import KEY, LIVE, Both, Caller, run
from journeys.test_refunds_there import receive
from support import postgres
from support.account_at_face import open_account
from support.installation import Installation, running
from support.ports import reserved_port
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("account in a cell")]

PAYEE = "settle@sandbox.pix.example"


@pytest.fixture
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("account_in_cell")
    with (
        running(folder / "bank", FACES="inter:0") as bank,
        reserved_port() as port,
        Installation(
            folder / "live", PORT=str(port), CALLBACK_BASE_URL=f"http://127.0.0.1:{port}", **LIVE
        ).wait_until_ready() as live,
    ):
        yield Both(bank=bank, live=live, url=f"http://127.0.0.1:{port}", folder=folder)


def add_cell(live: Installation) -> None:
    url = json.loads((live.home / "running.json").read_text())["owner_database_url"]
    postgres.execute(url, "create database second_cell")
    parts = urlsplit(url)
    address = f"postgresql://{parts.netloc.rpartition('@')[2]}/second_cell?{parts.query}"
    run(live, "cell", "add", "second", "--database-url", address, "--json")


def test_an_account_in_a_second_cell_receives_sends_and_returns(both: Both) -> None:
    bank, live = both.bank, both.live
    add_cell(live)
    house = open_account(bank, live, both.folder, "inter", cell="second")
    [listed] = run(live, "institution", "list", "--json")["institutions"]
    assert (listed["cell"], listed["house"]) == ("second", int(house))
    scopes = (
        "transfer.read",
        "transfer.write",
        "refund.read",
        "refund.write",
        "ledger.read",
        "charge.read",
        "charge.write",
    )
    caller = Caller(both, *scopes, holder_id=house)
    charge = caller.insist("POST", "/v1/connect/charge", dict(amount=1234, key=KEY, external_id="a charge"))
    run(bank, "pay", charge["emvqrcps"], "--json")
    path = "/v1/connect/charge/external-id/a charge"
    wait_until(lambda: caller.insist("GET", path)["status"] == "APPROVED", "the charge is paid")
    received, there_cents = receive(both)
    given_back = dict(end_to_end_id=received, amount=100, external_id="a refund")
    caller.insist("POST", "/v1/connect/refund", given_back)
    allowed = ("--per-transfer", "100000", "--per-day", "100000", "--to", "all")
    assert run(live, "institution", "allow", "loja", *allowed, "--json")["acts_now"]
    sent = dict(amount=200, key=PAYEE, key_type="EMAIL", external_id="a transfer")
    caller.insist("POST", "/v1/connect/transfer/key", sent)
    path = "/v1/connect/transfer/external-id/a transfer"
    wait_until(lambda: caller.insist("GET", path)["status"] == "CONFIRMED", "the transfer has arrived")
    wait_until(
        lambda: run(bank, "balance", "--json")["current_funds"] == there_cents - 300,
        "it has left the account there too",
    )

    def is_alike() -> bool:
        shown = run(live, "institution", "show", "loja", "--json")
        return shown["balance_here_cents"] == shown["balance_there_cents"] == there_cents - 300

    wait_until(is_alike, "both books say the same")
    checks = live.health_report()["checks"]
    assert checks["cells"]["status"] == checks["institutions"]["status"] == "healthy", checks
    found = run(live, "verify", "--whole", "--again-after-s", "2", "--json")["findings"]
    assert not found, found
