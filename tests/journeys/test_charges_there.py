"""Charges are changed and removed at an institution while processes die at each step, and answers are lost.

Two whole installations: a live one, and the institution's, whose simulated bank fails by rules. At the end each charge
is the same on both sides, removed ones cannot be paid, and changed ones are paid with the new amount.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from journeys.test_money_in import Both, Caller, open_both
from support.account_at_face import KEY, open_account, run
from support.killed_process import KILLABLE, KillPoints
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("charges there")]

KINDS = ("efi", "inter", "sicoob")
ASKED_CENTS, REVISED_CENTS = 1000, 2000
TRIED_MAX = 12
DIES_WITHIN_S = 20
FAULTS = ("no_answer", "too_many:1", "lost", "html:after")
CALLS = dict(revise="revision there", remove="removal there")


def list_points(kind: str) -> list[tuple[str, ...]]:
    """The process that dies, and its point. A worker only takes over a change when the asked process is dead."""
    call = CALLS[kind]
    by_caller = [
        f"serve {moment} {name}" for name in ("change there", call, "change here") for moment in ("before", "after")
    ]
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

    def __init__(self, two: Both) -> None:
        self._two = two
        self._caller = Caller(two, "cob.read", "cob.write", "charge.read", "ledger.read")
        self.wanted: dict[str, str] = {}

    def open(self, kind: str) -> str:
        txid = f"journey{len(self.wanted):025}"
        body = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY}
        self._caller.insist("PUT", f"/v2/cob/{txid}", body, accept=(200, 201))
        self.wanted[txid] = kind
        return txid

    def change(self, txid: str) -> None:
        if self.wanted[txid] == "revise":
            self._caller.insist("PATCH", f"/v2/cob/{txid}", {"valor": {"original": "20.00"}})
            return
        # If it was removed and the answer lost, the same request returns it.
        removal = {"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"}
        self._caller.insist("PATCH", f"/v2/cob/{txid}", removal)

    def read_here(self, txid: str) -> dict[str, Any]:
        return self._caller.insist("GET", f"/v2/cob/{txid}")

    def read_there(self, txid: str) -> dict[str, Any]:
        return run(self._two.bank, "charge", "show", txid, "--json")

    def are_changed(self) -> bool:
        for txid, kind in self.wanted.items():
            here, there = self.read_here(txid), self.read_there(txid)
            says = here["status"], here["valor"]["original"], here["revisao"], there["status"], there["amount"]
            wanted = {
                "revise": ("ATIVA", "20.00", 1, "PENDING", REVISED_CENTS),
                "remove": ("REMOVIDA_PELO_USUARIO_RECEBEDOR", "10.00", 1, "EXPIRED", ASKED_CENTS),
            }
            if says != wanted[kind]:
                return False
        return True


def comes_true(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + DIES_WITHIN_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.1)
    return is_so()


def test_each_charge_says_the_same_on_both_sides_whoever_dies_and_whatever_is_lost(both: Both) -> None:
    for fault in FAULTS:
        run(both.bank, "faults", "add", fault, "--operation", "face_write", "--times", "1", "--json")
    points, charges = KillPoints(both.live.home), Charges(both)
    before_cents = run(both.bank, "balance", "--json")["current_funds"]
    for kind in CALLS:
        for deaths in list_points(kind):
            for point in deaths:
                points.arm(point)
            # The worker ends a call that takes too long, and then the point is not reached: another charge is used.
            for _ in range(TRIED_MAX):
                charges.change(charges.open(kind))
                if comes_true(lambda deaths=deaths: all(map(points.has_killed, deaths))):
                    break
            assert all(map(points.has_killed, deaths)), deaths
    wait_until(charges.are_changed, "both sides say what was wanted")
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
