"""A rail with its own ids, early or late: callers see ours first, then the network's, and find orders by both."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from support.money_model import Asked, MoneyModel
from support.renaming_rail import AFTER_THE_END, EARLY, WITH_THE_END, network_name
from support.waiting import read_until, wait_until
from support.whole_installation import Answer, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("late name")]

FUNDS_CENTS = 100_000
AMOUNT_CENTS = 3_000  # and the moment at which the id is returned, which the rail reads from it
MOMENTS = [EARLY, WITH_THE_END, AFTER_THE_END]

_numbers = count(1)


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    with open_whole_installation({"keeps_our_id": False}, policy={"handover_timeout_s": 36000}) as opened:
        yield opened


class Story:
    """One holder's orders, and their expected results."""

    def __init__(self, service: WholeInstallation) -> None:
        self.service = service
        self.account = service.open_account(FUNDS_CENTS)
        self.model = MoneyModel(deposits={self.account.holder_id: Counter([FUNDS_CENTS])})

    def send(self, moment: int, payee: str = "settle") -> dict[str, Any]:
        ending = "ERROR" if payee.startswith("reject") else "CONFIRMED"
        body = {"key": f"{payee}@sandbox.pix.example", "key_type": "EMAIL"}
        return self._ask("transfer", "/v1/connect/transfer/key", ending, AMOUNT_CENTS + moment, body)

    def refund(self, moment: int) -> dict[str, Any]:
        paid = {"key": self.account.key, "amount": 2 * AMOUNT_CENTS}
        name = self.ask("POST", "/sandbox/v1/payments", paid).data["end_to_end_id"]
        self.settle()
        body = {"end_to_end_id": name}
        return self._ask("refund", "/v1/connect/refund", "RETURNED", AMOUNT_CENTS + moment, body)

    def _ask(self, kind: Any, path: str, ending: str, amount_cents: int, body: dict[str, Any]) -> dict[str, Any]:
        asked = Asked(
            kind=kind, holder_id=self.account.holder_id, external_id=f"late-{next(_numbers)}",
            amount_cents=amount_cents, endings={ending},
        )  # fmt: skip
        self.model.ask(asked)
        told = self.ask("POST", path, body | {"amount": amount_cents, "external_id": asked.external_id}).data
        asked.told_id = told["id"]
        return told

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        answer = self.service.insist(self.account, method, path, body)
        assert answer.status == 200, answer
        return answer

    def read_named(self, path: str, field: str, name: str) -> dict[str, Any]:
        """Read a path until it has this name."""
        return read_until(lambda: self.ask("GET", path).data, lambda found: found[field] == name)

    def settle(self) -> None:
        self.model.check_at_rest(self.service.settle([self.account]))

    def heard(self, event: str, of: dict[str, Any]) -> list[dict[str, Any]]:
        """The payloads of an event of one resource, each once."""
        bodies = {body for _, body in self.service.listener.heard[self.account.holder_id]}
        events = [told for body in bodies if (told := json.loads(body))["name"] == event]
        return [told["payload"] for told in events if told["payload"]["id"] == of["id"]]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_refund_shows_our_name_and_then_the_networks(service: WholeInstallation, moment: int) -> None:
    story = Story(service)
    refund = story.refund(moment)
    ours, theirs = refund["return_identification"], network_name(refund["return_identification"])
    story.settle()
    found = story.read_named(f"/v1/connect/refund/id/{refund['id']}", "return_identification", theirs)
    assert found["original_end_to_end_id"] == refund["original_end_to_end_id"]
    for name in (ours, theirs):
        assert story.ask("GET", f"/v1/connect/refund/return-identification/{name}").data == found
    story.settle()
    service.check_heard([story.account])


@pytest.mark.parametrize("moment", [EARLY, WITH_THE_END])
@pytest.mark.parametrize("point", ["before naming", "after naming", "after COMMIT of name_orders"])
def test_a_worker_that_dies_loses_neither_name_nor_end(service: WholeInstallation, moment: int, point: str) -> None:
    story = Story(service)
    service.points.arm(f"work {point}")
    sent, theirs = (one := story.send(moment)), network_name(one["end_to_end_id"])
    service.wait_until_killed(story.account, f"work {point}")
    story.settle()
    story.read_named(f"/v1/connect/transfer/id/{sent['id']}", "end_to_end_id", theirs)
    service.check_heard([story.account])
    [ended] = story.heard("transfer.out.confirmed", sent)
    assert ended["end_to_end_id"] == theirs


def test_after_all_that_the_books_are_right_and_nothing_waits_for_an_operator(service: WholeInstallation) -> None:
    service.check_books(is_rail_true=False)
    story = Story(service)

    def is_rail_healthy() -> bool:
        # On a busy machine a check may time out and report that; findings that wait for an operator stay.
        return story.ask("GET", "/v1/connect/health").data["checks"]["rail"]["status"] == "healthy"

    wait_until(is_rail_healthy, "nothing is wrong with the rail")
