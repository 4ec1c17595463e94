"""A rail with its own ids, early or late: callers see ours first, then the network's, and find orders by both."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.renaming_rail import AFTER_THE_END, EARLY, WITH_THE_END, network_name
from support.story import Story
from support.waiting import read_until, wait_until
from support.whole_installation import WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("late name")]

FUNDS_CENTS = 100_000
AMOUNT_CENTS = 3_000  # and the moment at which the id is returned, which the rail reads from it
MOMENTS = [EARLY, WITH_THE_END, AFTER_THE_END]


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    with open_whole_installation({"keeps_our_id": False}, policy={"handover_timeout_s": 36000}) as opened:
        yield opened


class LateStory(Story):
    """One holder's orders, and their expected results."""

    def send(self, moment: int) -> dict[str, Any]:
        key = dict(key="settle@sandbox.pix.example", key_type="EMAIL")
        return self.ask("transfer", "/v1/connect/transfer/key", "CONFIRMED", AMOUNT_CENTS + moment, **key).data

    def refund(self, moment: int) -> dict[str, Any]:
        paid = {"key": self.account.key, "amount": 2 * AMOUNT_CENTS}
        name = self.service.insist(self.account, "POST", "/sandbox/v1/payments", paid).data["end_to_end_id"]
        self.settle()
        return self.ask("refund", "/v1/connect/refund", "RETURNED", AMOUNT_CENTS + moment, end_to_end_id=name).data

    def read(self, path: str) -> dict[str, Any]:
        answer = self.service.insist(self.account, "GET", path)
        assert answer.status == 200, answer
        return answer.data

    def read_named(self, path: str, field: str, name: str) -> dict[str, Any]:
        """Read a path until it has this name."""
        return read_until(lambda: self.read(path), lambda found: found[field] == name)

    def heard(self, event: str, of: dict[str, Any]) -> list[dict[str, Any]]:
        """The payloads of an event of one resource, each once."""
        bodies = {body for _, body in self.service.listener.heard[self.account.holder_id]}
        events = [told for body in bodies if (told := json.loads(body))["name"] == event]
        return [told["payload"] for told in events if told["payload"]["id"] == of["id"]]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_refund_shows_our_name_and_then_the_networks(service: WholeInstallation, moment: int) -> None:
    story = LateStory(service, FUNDS_CENTS)
    refund = story.refund(moment)
    ours, theirs = refund["return_identification"], network_name(refund["return_identification"])
    story.settle()
    found = story.read_named(f"/v1/connect/refund/id/{refund['id']}", "return_identification", theirs)
    assert found["original_end_to_end_id"] == refund["original_end_to_end_id"]
    for name in (ours, theirs):
        assert story.read(f"/v1/connect/refund/return-identification/{name}") == found
    story.settle()
    service.check_heard([story.account])


@pytest.mark.parametrize("moment", [EARLY, WITH_THE_END])
@pytest.mark.parametrize("point", ["before naming", "after naming", "after COMMIT of name_orders"])
def test_a_worker_that_dies_loses_neither_name_nor_end(service: WholeInstallation, moment: int, point: str) -> None:
    story = LateStory(service, FUNDS_CENTS)
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
    story = LateStory(service, FUNDS_CENTS)

    def is_rail_healthy() -> bool:
        # On a busy machine a check may time out and report that; findings that wait for an operator stay.
        return story.read("/v1/connect/health")["checks"]["rail"]["status"] == "healthy"

    wait_until(is_rail_healthy, "nothing is wrong with the rail")
