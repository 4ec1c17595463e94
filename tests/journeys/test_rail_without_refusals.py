"""A rail without refusals: unacceptable payments are returned once, even if a process dies on the way."""

from collections.abc import Callable, Iterator

import pytest

from support.story import AMOUNT_CENTS, Story
from support.whole_installation import WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("rail without refusals")]


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    with open_whole_installation({"refuses_credits": False}, policy={"handover_timeout_s": 36000}) as opened:
        yield opened


def be_paid_twice(story: Story, point: str) -> None:
    emv = story.ask("charge", "/v1/connect/charge", "APPROVED", key=story.account.key).data["emvqrcps"]
    story.be_paid(emv=emv)
    story.model.check_at_rest(story.service.settle([story.account]))
    story.service.points.arm(point)
    story.be_paid(emv=emv)


def be_paid_twice_in_two_steps(story: Story, point: str) -> None:
    """The first payment holds the charge and pays it later; the second is accepted, and returned when it settles."""
    emv = story.ask("charge", "/v1/connect/charge", "APPROVED", key=story.account.key).data["emvqrcps"]
    story.let_next_payment("two_steps:20000")
    story.be_paid(emv=emv)
    story.service.wait_until_accepted(story.account)
    story.let_next_payment("two_steps:20")
    story.service.points.arm(point)
    story.be_paid(emv=emv)
    story.service.wait_until_killed(story.account, point)
    story.service.advance_clock(story.account, 20)


_ARRIVING = (
    *("work before group write", "work after group write", "work after COMMIT of receive_credits"),
    *("work before acknowledgement", "sandbox after arrivals", "sandbox before word on arrivals"),
)
_GOING_BACK = (
    *("work before mark", "work after mark", "work before refund call", "work after refund call"),
    *("sandbox before orders", "sandbox after orders", "work after COMMIT of write_endings"),
)
_CASES = [
    pytest.param(tell, point, id=f"{tell.__name__}: {point}")
    for tell, points in ((be_paid_twice, (*_ARRIVING, *_GOING_BACK)), (be_paid_twice_in_two_steps, _ARRIVING))
    for point in points
]


@pytest.mark.parametrize(("tell", "point"), _CASES)
def test_what_fails_is_given_back(service: WholeInstallation, tell: Callable[[Story, str], None], point: str) -> None:
    story = Story(service)
    tell(story, point)
    service.wait_until_killed(story.account, point)
    story.settle()
    service.check_heard([story.account])
    things = service.see([story.account]).things
    [refund] = [thing for thing in things if thing.kind == "refund"]
    assert (refund.status, refund.amount_cents) == ("RETURNED", AMOUNT_CENTS)
    received = sorted(thing.status for thing in things if thing.kind == "transfer")
    assert received == ["CONFIRMED", "RETURNED"]


def test_after_all_that_the_books_are_right(service: WholeInstallation) -> None:
    service.check_books()
