"""Transfers leave over an account at an institution while processes die at each step, and answers are lost.

Two whole installations: a live one, and the institution's, whose simulated bank fails by rules. At the end each
transfer was paid there once, and both books agree on it.
"""

import json
from collections.abc import Iterator

import pytest

from journeys.test_money_in import KEY, Both, open_both, run
from journeys.test_refunds_there import FAULTS, Orders, open_account, receive
from pixconnect.kernel.rules.br_code import format_static_br_code
from support.account_at_face import allow_transfers
from support.killed_process import KILLABLE, KillPoints, change_policy
from support.verbs import run_forked
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("transfers there")]

PAYEE = "settle@sandbox.pix.example"
REFUSED = "reject-ac03@sandbox.pix.example"
CUT_OFF = "work before transfer there"
"""Points after which the row is marked as called, without a call: if no other process may call, the service only queries it.
"""
CALLED_ONCE = ("inter", "sicoob")
PAYS_CODES = ("efi", "woovi")
AFTER_CUT_OFF = "work after transfer there"
POINTS = (
    "serve before group write", "serve after group write", "serve after COMMIT of start_transfers", "work after mark",
    "work after name there", CUT_OFF, AFTER_CUT_OFF, "work before question of a transfer there",
    "work before group write", "work after COMMIT of write_endings",
)  # fmt: skip


@pytest.fixture(scope="module", params=["efi", "inter", "sicoob", "woovi"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Both]]:
    folder = tmp_path_factory.mktemp("transfers_there")
    # Nothing expires however long a restart takes.
    change_policy(folder / "live", handover_timeout_s=36_000)
    with open_both(folder, request.param, KILLABLE, has_callbacks=True) as two:
        yield request.param, two


class Transfers(Orders):
    def __init__(self, two: Both) -> None:
        super().__init__(two, "transfer")

    def read_refusal(self, external_id: str, cents: int) -> str:
        """The reason for not accepting transfers now."""
        body = dict(amount=cents, key=PAYEE, key_type="EMAIL", external_id=external_id)
        return self._caller.insist("POST", "/v1/connect/transfer/key", body, (503,))["error"]["message"]

    def ask(self, external_id: str, cents: int, key: str = PAYEE) -> None:
        self._order("/v1/connect/transfer/key", amount=cents, key=key, key_type="EMAIL", external_id=external_id)

    def ask_by_code(self, external_id: str, cents: int) -> None:
        code = format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=cents)
        self._order("/v1/connect/transfer/qrcode", amount=cents, emv=code, external_id=external_id)

    def are_over(self, may_stay_open: frozenset[str] = frozenset()) -> bool:
        """Whether each has ended, or stays open because it was never there."""
        there = self.read_there()
        return all(
            each["status"] != "PROCESSING" or (name in may_stay_open and self.cents[name] not in there)
            for name, each in self.read_here().items()
        )


def test_each_transfer_is_paid_there_once_whoever_dies_and_whatever_is_lost(both: tuple[str, Both]) -> None:
    kind, two = both
    open_account(two.bank, two.live, two.folder, kind)
    received = receive(two)[1]
    if kind == "efi":
        with pytest.raises(AssertionError, match=f"keys: {KEY} cannot pay"):
            allow_transfers(two.live)
        run(two.live, "institution", "webhook", "set", "loja", "--json")
    allow_transfers(two.live)
    # Calls that never arrive at Sicoob stay open, so only one is lost there.
    for fault in (each for each in FAULTS if kind != "sicoob" or each != "lost"):
        run(two.bank, "faults", "add", fault, "--operation", "face_write", "--times", "1", "--json")
    points, transfers = KillPoints(two.live.home), Transfers(two)
    cut_off = frozenset(f"{POINTS.index(CUT_OFF)}-{part}" for part in "ab" if kind in CALLED_ONCE)
    for number, point in enumerate(POINTS):
        if kind in CALLED_ONCE and point in ("work after mark", CUT_OFF, AFTER_CUT_OFF):
            # Only the calling worker repeats a lost call, and earlier calls may be cut off with these.
            wait_until(lambda: transfers.are_over(cut_off), "those before have ended")
        points.arm(point)
        transfers.ask(f"{number}-a", 100 + number)
        if kind != "sicoob" or point != CUT_OFF:
            # Behind a cut call it might miss its minute.
            ask = transfers.ask_by_code if kind in PAYS_CODES else transfers.ask
            ask(f"{number}-b", 200 + number)
        wait_until(lambda point=point: points.has_killed(point), point)
    transfers.ask("refused", 77, REFUSED)

    wait_until(lambda: transfers.are_over(cut_off), "all transfers have ended")
    here, there = transfers.read_here(), transfers.read_there()
    still_open = [name for name in here if here[name]["status"] == "PROCESSING"]
    open_cents = sum(transfers.cents[name] for name in still_open if here.pop(name))
    refused = here.pop("refused")
    assert (refused["status"], there.get(77, {"status": "ERROR"})["status"]) == ("ERROR", "ERROR")
    there.pop(77, None)
    assert {each["status"] for each in here.values()} == {"CONFIRMED"}
    assert there.keys() == {transfers.cents[name] for name in here}
    for name, ours in here.items():
        theirs = there[transfers.cents[name]]
        for member in ("end_to_end_id", "amount", "status"):
            assert ours[member] == theirs[member], (name, member)
    left = received - sum(there)
    assert run(two.bank, "balance", "--json")["current_funds"] == left
    shown = run(two.live, "institution", "show", "loja", "--json")
    assert shown["balance_here_cents"] == shown["balance_there_cents"] == left
    assert transfers.read_funds_here() == left - open_cents
    assert run(two.live, "report", "list", "--json")["reports"] == []
    assert KEY not in {each["credit_party"].get("key") for each in here.values()}


def test_a_penny_is_sent_only_where_somebody_says_so_and_is_followed(both: tuple[str, Both]) -> None:
    """It runs after the test above, on its account."""
    _, two = both
    check = ("institution", "check", "loja", "--penny")
    for words, said in (((PAYEE,), "--yes: required without a terminal"), (("joana",), "no kind of Pix key")):
        refused = run_forked((*check, *words), two.live.environment)
        assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
    ended = run_forked((*check, PAYEE, "--yes", "--timeout", "30", "--json"), two.live.environment)
    assert ended.returncode == 5, ended.stderr
    assert "R$ 0,01 will leave loja" in ended.stderr
    assert "nothing came back within 30 s" in ended.stderr, ended.stderr
    sent = json.loads(ended.stdout)
    assert (sent["status"], sent["returned_cents"], "came_back_as" in sent) == ("CONFIRMED", 0, False)
    listed = run(two.bank, "transfer", "list", "--limit", "100", "--json")["transfers"]
    assert sent["end_to_end_id"] in {each["end_to_end_id"] for each in listed if each["amount"] == 1}
