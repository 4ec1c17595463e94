"""Refunds leave over an account at an institution while processes die at each point of their way, and answers are lost.

Two whole installations: ours, live, and the institution's, whose face fails by fault rules. In the end each refund was returned
there once, and both books say the same of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from journeys.test_money_in import KEY, LIVE, Both, Caller, run, wait_until
from support.installation import Installation, running
from support.killed_process import SITE_FOLDER, KillPoints
from support.ports import reserved_port

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("refunds there")]

KINDS = ("efi", "inter", "woovi", "sicoob")
CUT_OFF = "work before refund there"
"""Where the row says that we call and nobody did: what Woovi never got is only asked about."""
POINTS = (
    "serve before group write",
    "serve after group write",
    "serve after COMMIT of start_refunds",
    "work after mark",
    "work after name there",
    CUT_OFF,
    "work after refund there",
    "work before question there",
    "work before group write",
    "work after COMMIT of write_endings",
)
RECEIVED_CENTS = 100_000
FAULTS = ("no_answer", "too_many:1", "lost", "no_answer", "too_many:2", "html:after")


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Both]]:
    folder = tmp_path_factory.mktemp("refunds_there")
    command = ("env", f"PYTHONPATH={SITE_FOLDER}", sys.executable, "-P", "-m", "pixconnect", "run")
    with (
        running(folder / "bank", FACES=f"{request.param}:0") as bank,
        reserved_port() as port,
        # However long those who die take to come back, nothing is given up.
        Installation(
            folder / "live", command, PORT=str(port), HANDOVER_TIMEOUT_S="36000", **LIVE
        ).wait_until_ready() as live,
    ):
        yield request.param, Both(bank=bank, live=live, url=f"http://127.0.0.1:{port}", folder=folder)


def open_account(two: Both, kind: str) -> None:
    shown = run(two.bank, "face", "show", kind, "--json")
    (two.folder / "secret").write_text(shown.get("app_id") or shown["client_secret"])
    lines = dict(
        kind=kind, environment="counterpart", tax_id="12345678000195", base_url=shown["url"],
        client_secret_file="secret", ca_file=shown["authority_file"],
    )  # fmt: skip
    if "app_id" not in shown:
        files = dict(certificate_file=shown["certificate_file"], private_key_file=shown["key_file"])
        lines |= files | dict(client_id=shown["client_id"])
    file = two.folder / f"{kind}.toml"
    file.write_text("".join(f'{name} = "{said}"\n' for name, said in lines.items()) + f'poll_s = 1\nkeys = ["{KEY}"]\n')
    run(two.live, "holder", "create", "--name", "Loja", "--tax-id", "12345678000195", "--account-number", "1",
        "--no-limits", "--json")  # fmt: skip
    run(two.live, "institution", "add", "loja", "--file", str(file), "--house", "1")
    run(two.live, "key", "add", "--holder-id", "1", "--key-type", "EMAIL", "--key", KEY, "--json")
    assert run(two.live, "institution", "allow", "loja", "--refunds", str(RECEIVED_CENTS), "--json")["acts_now"]


class Refunds:
    """Those of one received Pix, each part with an amount and a name of its own."""

    def __init__(self, two: Both, end_to_end_id: str) -> None:
        self._two = two
        self._caller = Caller(two, "refund.read", "refund.write", "ledger.read")
        self._end_to_end_id = end_to_end_id
        self.cents: dict[str, int] = {}
        """By external_id."""

    def ask(self, external_id: str, cents: int) -> None:
        body = dict(end_to_end_id=self._end_to_end_id, amount=cents, external_id=external_id)
        made = self._caller.insist("POST", "/v1/connect/refund", body)
        assert self._caller.insist("POST", "/v1/connect/refund", body)["id"] == made["id"]
        self.cents[external_id] = cents

    def read_here(self) -> dict[str, dict[str, Any]]:
        path = "/v1/connect/refund/external-id/"
        return {name: self._caller.insist("GET", path + name) for name in self.cents}

    def read_there(self) -> dict[int, dict[str, Any]]:
        """By amount: an amount that is there twice is a refund that was made twice."""
        listed = run(self._two.bank, "refund", "list", "--limit", "100", "--json")["refunds"]
        assert len({each["amount"] for each in listed}) == len(listed), listed
        return {each["amount"]: each for each in listed}

    def read_funds_here(self) -> int:
        return self._caller.insist("GET", "/v1/connect/balance")["available_funds"]

    def are_over(self, may_stay_open: set[str]) -> bool:
        """Whether each has ended on both sides, or is one that stays open because it was never there."""
        here, there = self.read_here(), self.read_there()
        return all(
            (refund["status"], there.get(self.cents[name], {}).get("status")) == ("RETURNED", "RETURNED")
            or (name in may_stay_open and refund["status"] == "PROCESSING" and self.cents[name] not in there)
            for name, refund in here.items()
        )


def test_each_refund_is_returned_there_once_whoever_dies_and_whatever_is_lost(both: tuple[str, Both]) -> None:
    kind, two = both
    open_account(two, kind)
    received = run(two.bank, "receive", "--amount", str(RECEIVED_CENTS), "--json")["end_to_end_id"]
    before_cents = run(two.bank, "balance", "--json")["current_funds"]

    def is_read() -> bool:
        return run(two.live, "institution", "show", "loja", "--json")["balance_here_cents"] == before_cents

    wait_until(is_read, "what came in is in the books")
    # Of a call that Woovi never got nobody can know it.
    faults = [fault for fault in FAULTS if kind != "woovi" or fault != "lost"]
    for fault in faults:
        run(two.bank, "faults", "add", fault, "--operation", "face_write", "--times", "1", "--json")
    points, refunds = KillPoints(two.live.home), Refunds(two, received)
    for number, point in enumerate(POINTS):
        points.arm(point)
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
