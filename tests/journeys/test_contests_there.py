"""Contests at an institution between two whole installations: a live one, and the simulated Efi of a sandbox."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from journeys.test_money_in import Both, Caller, open_both
from support.account_at_face import open_account, run
from support.killed_process import KILLABLE, KillPoints
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("contests there")]

PAID_CENTS = 10_000
POINTS = (
    "serve after COMMIT of answer_infractions",
    "work before answer to a contest there",
    # The institution has the answer, and the service has not recorded that.
    "work after answer to a contest there",
    "work after COMMIT of answer_infractions",
)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with open_both(tmp_path_factory.mktemp("contests_there"), "efi", KILLABLE) as made:
        open_account(made.bank, made.live, made.folder, "efi")
        yield made


class There:
    """The bank, a sandbox: it opens contests and decides them on request."""

    def __init__(self, two: Both) -> None:
        self._bank = two.bank
        made = run(two.bank, "client", "create", "--holder-id", "1", "--scope", "infraction.read", "--json")
        credentials = dict(grant_type="client_credentials", client_id=made["client_id"])
        self._api = httpx.Client(base_url=two.bank.base_url, timeout=30)
        token = self._api.post("/oauth/token", data=credentials | dict(client_secret=made["client_secret"])).json()
        self._api.headers["authorization"] = f"Bearer {token['access_token']}"

    def close(self) -> None:
        self._api.close()

    def receive(self) -> str:
        return run(self._bank, "receive", "--amount", str(PAID_CENTS), "--json")["end_to_end_id"]

    def contest(self, end_to_end_id: str) -> str:
        answer = self._api.post("/sandbox/v1/infractions", json=dict(end_to_end_id=end_to_end_id))
        assert answer.is_success, answer.text
        return answer.json()["data"]["infraction_id"]

    def decide(self, name: str, decision: str) -> None:
        answer = self._api.post(f"/sandbox/v1/infractions/{name}/decide", json=dict(decision=decision))
        assert answer.is_success, answer.text

    def read(self, name: str) -> dict[str, Any]:
        listed = self._api.get("/v1/connect/infraction/list").json()["data"]
        return next(one for one in listed if one["infraction_id"] == name)


@pytest.fixture
def there(two: Both) -> Iterator[There]:
    opened = There(two)
    yield opened
    opened.close()


def test_a_contest_is_mirrored_answered_and_ends_as_the_institution_says(two: Both, there: There) -> None:
    caller = Caller(two, "infraction.read", "infraction.write", "ledger.read", "refund.read")

    def find(name: str) -> dict[str, Any] | None:
        listed = caller.insist("GET", "/v1/connect/infraction/list")
        return next((one for one in listed if one["infraction_id"] == name), None)

    def funds() -> tuple[int, int]:
        balance = caller.insist("GET", "/v1/connect/ledger/balance")
        return balance["available_funds"], balance["current_funds"]

    wait_until(lambda: bool(run(two.live, "institution", "show", "loja", "--json").get("last_reading_at")), "it is read")
    begun, _ = funds()
    first, second = there.receive(), there.receive()
    wait_until(lambda: funds() == (begun + 2 * PAID_CENTS,) * 2, "both are in the books")
    lost, kept = there.contest(first), there.contest(second)
    wait_until(lambda: bool(find(lost) and find(kept)), "both contests are told")
    assert funds() == (begun, begun + 2 * PAID_CENTS)

    shown = find(kept)
    assert shown is not None
    assert (shown["status"], shown["text_length_max"]) == ("OPEN", 1000)
    caller.insist("POST", f"/v1/connect/infraction/id/{shown['id']}/defence", dict(text="delivered on the 20th"))
    wait_until(lambda: there.read(kept).get("defence", {}).get("text") == "delivered on the 20th", "it is heard there")
    wait_until(lambda: (find(kept) or {})["status"] == "ANSWERED", "it is answered here")

    there.decide(lost, "take")
    there.decide(kept, "release")
    wait_until(lambda: ((find(lost) or {})["status"], (find(kept) or {})["status"]) == ("TAKEN", "RELEASED"), "both have ended")
    assert funds() == (begun + PAID_CENTS, begun + PAID_CENTS)
    taken = find(lost)
    assert taken is not None
    assert taken["taken"] == there.read(lost)["taken"] == PAID_CENTS
    account = run(two.live, "institution", "show", "loja", "--json")
    assert account["balance_here_cents"] == account["balance_there_cents"]
    assert run(two.live, "report", "list", "--json")["reports"] == []


def test_an_answer_is_given_there_once_whoever_dies_on_its_way(two: Both, there: There) -> None:
    caller, points = Caller(two, "infraction.read", "infraction.write", "ledger.read"), KillPoints(two.live.home)

    def list_here() -> dict[str, dict[str, Any]]:
        return {one["infraction_id"]: one for one in caller.insist("GET", "/v1/connect/infraction/list")}

    before_cents = caller.insist("GET", "/v1/connect/ledger/balance")["current_funds"]
    received = [there.receive() for _ in POINTS]
    come_cents = before_cents + len(POINTS) * PAID_CENTS
    wait_until(
        lambda: caller.insist("GET", "/v1/connect/ledger/balance")["current_funds"] == come_cents, "all are in the books"
    )
    contests = [there.contest(paid) for paid in received]
    wait_until(lambda: list_here().keys() >= set(contests), "all contests are told")
    for name, point in zip(contests, POINTS, strict=True):
        path, words = f"/v1/connect/infraction/id/{list_here()[name]['id']}/defence", f"delivered, {point}"
        points.arm(point)
        caller.insist("POST", path, {"text": words})
        wait_until(lambda point=point: points.has_killed(point), point)
        wait_until(lambda name=name: list_here()[name]["defence"]["status"] == "SENT", "it is sent")
        assert list_here()[name]["status"] == "ANSWERED"
        assert there.read(name)["defence"]["text"] == words
    assert run(two.live, "report", "list", "--json")["reports"] == []
