"""Charges with a due date between two installations: opened, changed and paid there, with kills and lost answers.

The live installation's bank fails by rules. At the end both sides agree on each charge, payments are in both books to
the cent, and changes by others at the bank are reported as differences.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from journeys.test_charges_there import ASKED, ASKED_CENTS, KINDS, REVISED_CENTS, Charges
from journeys.test_money_in import Both, open_both
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.platform.base.clock import SAO_PAULO
from support.account_at_face import KEY, open_account, run
from support.killed_process import KILLABLE, KillPoints
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("charges there")]

FAULTS = ("no_answer", "lost", "html:after")
DEATHS = {
    "open": (
        ("serve before opening there",),
        ("serve after opening there",),
        ("serve before opening ended", "work before opening ended"),
    ),
    "revise": (("serve before revision there",), ("serve after revision there",)),
    "remove": (("serve after removal there",), ("serve before removal there", "work after removal there")),
}
DISCOUNT_CENTS = 150


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Both]]:
    with open_both(tmp_path_factory.mktemp("due_charges_there"), request.param, KILLABLE) as two:
        open_account(two.bank, two.live, two.folder, request.param)
        address = ("--street", "Rua A, 1", "--state", "PE", "--postal-code", "50000000")
        run(two.live, "holder", "set", "--holder-id", "1", *address, "--json")
        yield request.param, two


class DueCharges(Charges):
    path = "/v2/cobv/"
    name = "journeydue"
    scopes = ("cobv.read", "cobv.write", "pix.read", "charge.read", "webhook.read")

    def describe(self) -> dict[str, Any]:
        due_on = datetime.now(SAO_PAULO).date() + timedelta(days=10)
        discount = {"modalidade": 1, "descontoDataFixa": [{"data": f"{due_on}", "valorPerc": "1.50"}]}
        return {
            "calendario": {"dataDeVencimento": f"{due_on}"},
            "devedor": {"cpf": "12345678909", "nome": "Ana"},
            "valor": {"original": ASKED, "multa": {"modalidade": 2, "valorPerc": "2.00"}, "desconto": discount},
            "chave": KEY,
        }

    def list_receivers(self) -> list[dict[str, Any]]:
        path, told, cursor = "/v1/webhook/feed?event_types=charge.diverged", list[dict[str, Any]](), ""
        while True:
            page = self.caller.insist("GET", path + cursor)
            told += [event["payload"] for event in page["events"]]
            cursor = f"&cursor={quote(page['cursor'])}"
            if not page["has_more"]:
                return told


def revise_by_hand(name: str, two: Both, txid: str, original: str) -> None:
    """A person's change in the bank's app, which is not reported to us."""
    shown, profile = run(two.bank, "face", "show", name, "--json"), read_profile(name)
    with httpx2.Client(base_url=shown["base_url"], timeout=60) as client:
        login = {each: shown[each] for each in ("client_id", "client_secret")} | {"grant_type": "client_credentials"}
        token = client.post(profile.token.path, data=login).json()["access_token"]
        path = f"{profile.standard.prefix}/cobv/{txid}"
        revised = client.patch(path, json={"valor": {"original": original}}, headers={"Authorization": f"Bearer {token}"})
        assert revised.status_code == 200, revised.text


def test_both_sides_say_the_same_and_what_was_paid_is_told_whole(both: tuple[str, Both]) -> None:
    name, two = both
    charges, points = DueCharges(two), KillPoints(two.live.home)
    before_cents = run(two.bank, "balance", "--json")["current_funds"]
    for fault in FAULTS:
        run(two.bank, "faults", "add", fault, "--operation", "face_write", "--times", "1", "--json")
        charges.open("open")
    for kind, ways in DEATHS.items():
        for deaths in ways:
            charges.change_while_dying(points, kind, deaths)
    wait_until(charges.are_as_wanted, "both sides say what was wanted")
    paid = [txid for txid, kind in charges.wanted.items() if kind == "revise"]
    by_hand = next(txid for txid, kind in charges.wanted.items() if kind == "open")
    revise_by_hand(name, two, by_hand, "30.00")
    for txid in (*paid, by_hand):
        run(two.bank, "pay", charges.read_there(txid)["emvqrcps"], "--json")
    wanted_cents = before_cents + len(paid) * (REVISED_CENTS - DISCOUNT_CENTS) + 3000 - DISCOUNT_CENTS

    def is_all_here() -> bool:
        return run(two.live, "institution", "show", "loja", "--json")["balance_here_cents"] == wanted_cents

    wait_until(is_all_here, "what came in is in the books")
    assert run(two.bank, "balance", "--json")["current_funds"] == wanted_cents
    # Efi returns no parts, so its payments have one.
    whole = {"original": {"valor": "18.50"}}
    parts = whole if name == "efi" else {"original": {"valor": "20.00"}, "desconto": {"valor": "1.50"}}
    for txid in paid:
        assert (found := charges.read_here(txid))["status"] == "CONCLUIDA"
        assert found["pix"][0]["componentesValor"] == parts
    other = charges.read_here(by_hand)
    assert (other["status"], other["valor"]["original"], other["pix"][0]["valor"]) == ("CONCLUIDA", ASKED, "28.50")
    assert other["pix"][0]["componentesValor"] == {"original": {"valor": "28.50"}}
    wait_until(charges.list_receivers, "what differs is told")
    (told,) = charges.list_receivers()
    assert (told["divergences"], told["amount"], told["asked_amount"]) == (["OTHER_AMOUNT"], 2850, ASKED_CENTS - DISCOUNT_CENTS)
    assert run(two.live, "report", "list", "--json")["reports"] == []
