"""Refunds leave over an account at an institution while processes die at each step, and answers are lost.

Two whole installations: a live one, and the institution's, whose simulated bank fails by rules. At the end each refund
was made there once, and both books agree on it.
"""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from journeys.test_money_in import Both, Caller, open_both
from support.account_at_face import open_account, run
from support.installation import is_alive
from support.killed_process import KILLABLE, KillPoints, change_policy
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("refunds there")]

KINDS = ("efi", "inter", "woovi", "sicoob")
CUT_OFF = "work before refund there"
"""Points after which the row is marked as called, without a call: the service then only queries Woovi about it."""
CALLED = "work after refund there"
QUESTION = "work before question there"
POINTS = (
    "serve before group write", "serve after group write", "serve after COMMIT of start_refunds", "work after mark",
    "work after name there", CUT_OFF, CALLED, QUESTION,
    "work before group write", "work after COMMIT of write_endings",
)  # fmt: skip
HANDOVER_S = 20  # the time that a worker on a busy machine may need to reach an order; otherwise it is given up
RECEIVED_CENTS = 100_000
FAULTS = ("no_answer", "too_many:1", "lost", "no_answer", "too_many:2", "html:after")


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Both]]:
    folder = tmp_path_factory.mktemp("refunds_there")
    # Nothing expires however long a restart takes.
    change_policy(folder / "live", handover_timeout_s=36_000)
    with open_both(folder, request.param, KILLABLE) as two:
        yield request.param, two


def receive(two: Both) -> tuple[str, int]:
    """A Pix in both books; returns it with the account's balance."""
    received = run(two.bank, "receive", "--amount", str(RECEIVED_CENTS), "--json")["end_to_end_id"]
    before_cents = run(two.bank, "balance", "--json")["current_funds"]

    def is_read() -> bool:
        return run(two.live, "institution", "show", "loja", "--json")["balance_here_cents"] == before_cents

    wait_until(is_read, "what came in is in the books")
    return received, before_cents


class Orders:
    """Orders of one kind, each with a different amount and name."""

    def __init__(self, two: Both, kind: str) -> None:
        self._two, self._kind = two, kind
        self._caller = Caller(two, f"{kind}.read", f"{kind}.write", "ledger.read")
        self.cents: dict[str, int] = {}  # by external_id

    def _order(self, path: str, **body: Any) -> None:
        made = self._caller.insist("POST", path, body)
        assert self._caller.insist("POST", path, body)["id"] == made["id"]
        self.cents[body["external_id"]] = body["amount"]

    def read_here(self) -> dict[str, dict[str, Any]]:
        path = f"/v1/connect/{self._kind}/external-id/"
        return {name: self._caller.insist("GET", path + name) for name in self.cents}

    def read_there(self) -> dict[int, dict[str, Any]]:
        """By amount: a repeated amount is a double order."""
        listed = run(self._two.bank, self._kind, "list", "--limit", "100", "--json")[f"{self._kind}s"]
        sent = [each for each in listed if each.get("impact_type") != "IN"]
        assert len({each["amount"] for each in sent}) == len(sent), sent
        return {each["amount"]: each for each in sent}

    def read_funds_here(self) -> int:
        return self._caller.insist("GET", "/v1/connect/balance")["available_funds"]


class Refunds(Orders):
    """The refunds of one Pix."""

    def __init__(self, two: Both, end_to_end_id: str) -> None:
        super().__init__(two, "refund")
        self._end_to_end_id = end_to_end_id

    def ask(self, external_id: str, cents: int) -> None:
        self._order("/v1/connect/refund", end_to_end_id=self._end_to_end_id, amount=cents, external_id=external_id)

    def are_over(self, may_stay_open: set[str]) -> bool:
        """Whether each has ended on both sides, or stays open because it was never there."""
        here, there = self.read_here(), self.read_there()
        return all(
            (refund["status"], there.get(self.cents[name], {}).get("status")) == ("RETURNED", "RETURNED")
            or (name in may_stay_open and refund["status"] == "PROCESSING" and self.cents[name] not in there)
            for name, refund in here.items()
        )


def test_each_refund_is_returned_there_once_whoever_dies_and_whatever_is_lost(both: tuple[str, Both]) -> None:
    kind, two = both
    open_account(two.bank, two.live, two.folder, kind, RECEIVED_CENTS)
    received, before_cents = receive(two)
    # The service cannot find out that Woovi never received a call.
    faults = [fault for fault in FAULTS if kind != "woovi" or fault != "lost"]
    for fault in faults:
        run(two.bank, "faults", "add", fault, "--operation", "face_write", "--times", "1", "--json")
    points, refunds = KillPoints(two.live.home), Refunds(two, received)
    for number, point in enumerate(POINTS):
        if point == CUT_OFF:
            # On a busy machine calls of the point before may run together with these, and be cut off too.
            wait_until(lambda: refunds.are_over(set()), "those before have ended")
        if point != QUESTION:
            points.arm(point)
        if point == CALLED:
            # The next worker asks about the order of this one, maybe before this test sees the death.
            points.arm(QUESTION)
        refunds.ask(f"{number}-a", 100 + number)
        refunds.ask(f"{number}-b", 200 + number)
        wait_until(lambda point=point: points.has_killed(point), point)
    refunds.ask("rest", RECEIVED_CENTS - sum(refunds.cents.values()))

    cut_off = {f"{POINTS.index(CUT_OFF)}-{part}" for part in "ab"} if kind == "woovi" else set[str]()
    wait_until(lambda: refunds.are_over(cut_off), "all refunds have ended")
    here, there = refunds.read_here(), refunds.read_there()
    returned = {name for name, refund in here.items() if refund["status"] == "RETURNED"}
    assert here.keys() - returned <= cut_off
    assert there.keys() == {refunds.cents[name] for name in returned}
    for name in returned:
        theirs = there[refunds.cents[name]]
        for member in ("return_identification", "original_end_to_end_id", "amount"):
            assert here[name][member] == theirs[member], (name, member)
    assert run(two.bank, "balance", "--json")["current_funds"] == before_cents - sum(there)
    assert refunds.read_funds_here() == before_cents - RECEIVED_CENTS
    shown = run(two.live, "institution", "show", "loja", "--json")
    assert shown["balance_here_cents"] == shown["balance_there_cents"] == before_cents - sum(there)
    assert run(two.live, "report", "list", "--json")["reports"] == []


def test_a_lost_refund_is_asked_for_again_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    change_policy(folder / "live", handover_timeout_s=HANDOVER_S)
    with open_both(folder, "efi", KILLABLE) as two:
        open_account(two.bank, two.live, two.folder, "efi", RECEIVED_CENTS)
        received, before_cents = receive(two)
        run(two.bank, "faults", "add", "lost", "--operation", "face_write")
        refunds = Refunds(two, received)
        refunds.ask("r1", 700)
        time.sleep(HANDOVER_S + 5)  # by then it was called, and its time is over
        assert refunds.read_there() == {}
        stopped = two.live.database_pid
        os.kill(stopped, signal.SIGINT)
        wait_until(lambda: not is_alive(stopped), "PostgreSQL has ended")
        refunds.ask("r2", 800)
        run(two.bank, "faults", "clear")
        wait_until(lambda: refunds.are_over(set()), "both have been returned")
        assert two.live.database_pid != stopped
        assert run(two.bank, "balance", "--json")["current_funds"] == before_cents - 1500
