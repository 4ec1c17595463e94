"""A rail that pays repetitions again and does not know our ids: an order is submitted once, even if a process dies."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from support.story import AMOUNT_CENTS, FUNDS_CENTS, Story
from support.waiting import wait_until
from support.whole_installation import WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("rail that cannot be asked")]

PAYEE: Final = {
    "account_number": "1001", "account_type": "CHECKING", "branch": "0001", "ispb": "99999004", "name": "Joana Prado",
    "tax_id": "12345678909",
}  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    abilities = {"answers_by_our_id": False, "keeps_our_id": False}
    with open_whole_installation(abilities, policy={"handover_timeout_s": 36000}) as opened:
        yield opened


def send_while_somebody_dies(service: WholeInstallation, point: str) -> tuple[Story, dict[str, Any]]:
    story = Story(service)
    service.points.arm(point)
    sent = story.ask("transfer", "/v1/connect/transfer/manual", "CONFIRMED", credit_party=PAYEE).data
    service.wait_until_killed(story.account, point)
    return story, sent


@pytest.mark.parametrize("point", ["work before mark", "work after call", "sandbox after orders", "work before naming"])
def test_what_was_sent_or_not_marked_ends_once_by_its_report(service: WholeInstallation, point: str) -> None:
    story, sent = send_while_somebody_dies(service, point)
    wait_until(lambda: read_transfer(story, sent)["status"] == "CONFIRMED")
    found = read_transfer(story, sent)
    assert found["end_to_end_id"] != sent["end_to_end_id"]
    assert found["end_to_end_id"][9:] == sent["end_to_end_id"][9:]
    assert count_in_rail(service, sent) == 1


@pytest.mark.parametrize("point", ["work after mark", "work before call", "sandbox before orders"])
def test_what_never_got_there_waits_for_a_report_and_is_not_sent_again(service: WholeInstallation, point: str) -> None:
    story, sent = send_while_somebody_dies(service, point)
    # The worker has looked at it, could do nothing, and will look again in five minutes.
    looked = f"""
        select due_at > handed_at + interval '4 minutes' from open_order where name = '{sent["end_to_end_id"]}'
    """

    def is_left_alone() -> bool:
        service.advance_clock(story.account, 5)
        return bool(service.fetchval(looked))

    wait_until(is_left_alone)
    service.advance_clock(story.account, 3_600)
    assert read_transfer(story, sent)["status"] == "PROCESSING"
    assert read_transfer(story, sent)["end_to_end_id"] == sent["end_to_end_id"]
    assert count_in_rail(service, sent) == 0
    told = service.insist(story.account, "GET", "/v1/connect/ledger/balance").data
    assert (told["available_funds"], told["current_funds"]) == (FUNDS_CENTS - AMOUNT_CENTS, FUNDS_CENTS)

    def is_told() -> bool:
        # A check that times out is degraded, too.
        checks = service.insist(story.account, "GET", "/v1/connect/health").data["checks"]
        return "silent" in (checks["rail"].get("error") or "")

    wait_until(is_told)


def test_after_all_that_the_books_are_right(service: WholeInstallation) -> None:
    service.check_books()


def read_transfer(story: Story, sent: dict[str, Any]) -> dict[str, Any]:
    return story.service.insist(story.account, "GET", f"/v1/connect/transfer/id/{sent['id']}").data


def count_in_rail(service: WholeInstallation, sent: dict[str, Any]) -> int:
    """How often the rail has an order: each try has another id, which ends as our id does."""
    counted = f"select count(*) from sandbox.settlement where substr(id, 10) = '{sent['end_to_end_id'][9:]}'"
    return int(service.fetchval(counted))
