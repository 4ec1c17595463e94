"""Charges are changed and removed at an institution while processes die at each step, and answers are lost.

Two whole installations: a live one, and the institution's, whose simulated bank fails by rules. At the end each charge
is the same on both sides, removed ones cannot be paid, and changed ones are paid with the new amount.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from journeys.test_money_in import Both, Caller, open_both
from support.account_at_face import KEY, open_account, run
from support.killed_process import KILLABLE, KillPoints
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("charges there")]

KINDS = ("efi", "inter", "sicoob")
ASKED, REVISED = "10.00", "20.00"
ASKED_CENTS, REVISED_CENTS = 1000, 2000
TRIED_MAX = 12
DIES_WITHIN_S = 20
FAULTS = ("no_answer", "too_many:1", "lost", "html:after")
CALLS = dict(revise="revision there", remove="removal there")


def list_points(kind: str) -> list[tuple[str, ...]]:
    """The process that dies, and its point. A worker only takes over a change when the asked process is dead."""
    call = CALLS[kind]
    by_caller = [f"serve {moment} {name}" for name in ("change there", call, "change here") for moment in ("before", "after")]
    by_worker = [f"work {moment} {call}" for moment in ("before", "after")]
    if kind == "revise":
        by_caller.append("serve after revision noted")
    return [*((point,) for point in by_caller), *((f"serve before {call}", point) for point in by_worker)]


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with open_both(tmp_path_factory.mktemp("charges_there"), request.param, KILLABLE) as two:
        open_account(two.bank, two.live, two.folder, request.param)
        yield two


class Charges:
    """The holder's charges by txid, each with its wanted state."""

    path = "/v2/cob/"
    name = "journey"
    scopes = ("cob.read", "cob.write", "charge.read", "ledger.read")

    def __init__(self, two: Both) -> None:
        self._two = two
        self.caller = Caller(two, *self.scopes)
        self.wanted: dict[str, str] = {}

    def describe(self) -> dict[str, Any]:
        return {"calendario": {"expiracao": 3600}, "valor": {"original": ASKED}, "chave": KEY}

    def open(self, kind: str) -> str:
        txid = f"{self.name}{len(self.wanted):022}"
        self.wanted[txid] = kind
        self.caller.insist("PUT", self.path + txid, self.describe(), accept=(200, 201))
        return txid

    def change(self, txid: str) -> None:
        """As is wanted; if it was removed and the answer lost, the same request returns it."""
        removal = {"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"}
        changes = {"revise": {"valor": {"original": REVISED}}, "remove": removal}
        if (change := changes.get(self.wanted[txid])) is not None:
            self.caller.insist("PATCH", self.path + txid, change)

    def read_here(self, txid: str) -> dict[str, Any]:
        return self.caller.insist("GET", self.path + txid)

    def read_there(self, txid: str) -> dict[str, Any]:
        return run(self._two.bank, "charge", "show", txid, "--json")

    def are_as_wanted(self) -> bool:
        wanted = {
            "open": ("ATIVA", ASKED, 0, "PENDING", ASKED_CENTS),
            "revise": ("ATIVA", REVISED, 1, "PENDING", REVISED_CENTS),
            "remove": ("REMOVIDA_PELO_USUARIO_RECEBEDOR", ASKED, 1, "EXPIRED", ASKED_CENTS),
        }
        for txid, kind in self.wanted.items():
            here, there = self.read_here(txid), self.read_there(txid)
            says = here["status"], here["valor"]["original"], here["revisao"], there["status"], there["amount"]
            if says != wanted[kind]:
                return False
        return True

    def change_while_dying(self, points: KillPoints, kind: str, deaths: Sequence[str]) -> None:
        """Change charges until processes have died at these points.

        The worker ends a call that takes too long, and then the point is not reached: another charge is used.
        """
        for point in deaths:
            points.arm(point)
        for _ in range(TRIED_MAX):
            self.change(self.open(kind))
            until_s = time.monotonic() + DIES_WITHIN_S
            while not all(map(points.has_killed, deaths)) and time.monotonic() < until_s:
                time.sleep(0.1)
            if all(map(points.has_killed, deaths)):
                return
        raise AssertionError(f"no process died at {deaths}")


def test_each_charge_says_the_same_on_both_sides_whoever_dies_and_whatever_is_lost(both: Both) -> None:
    for fault in FAULTS:
        run(both.bank, "faults", "add", fault, "--operation", "face_write", "--times", "1", "--json")
    points, charges = KillPoints(both.live.home), Charges(both)
    before_cents = run(both.bank, "balance", "--json")["current_funds"]
    for kind in CALLS:
        for deaths in list_points(kind):
            charges.change_while_dying(points, kind, deaths)
    wait_until(charges.are_as_wanted, "both sides say what was wanted")
    revised = [txid for txid, kind in charges.wanted.items() if kind == "revise"]
    for txid in revised:
        run(both.bank, "pay", charges.read_there(txid)["emvqrcps"], "--json")
    wanted_cents = before_cents + len(revised) * REVISED_CENTS

    def is_all_here() -> bool:
        return run(both.live, "institution", "show", "loja", "--json")["balance_here_cents"] == wanted_cents

    wait_until(is_all_here, "what came in is in the books")
    assert run(both.bank, "balance", "--json")["current_funds"] == wanted_cents
    assert {charges.read_here(txid)["status"] for txid in revised} == {"CONCLUIDA"}
    assert run(both.live, "report", "list", "--json")["reports"] == []
