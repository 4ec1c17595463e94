"""A transfer from PROCESSING to its end."""

from datetime import timedelta

import msgspec
import pytest

from pixconnect.kernel.rules import transfer as transfers
from support.records import NOW, a_transfer

LATER = NOW + timedelta(seconds=1)


def test_a_request_has_the_code_without_what_was_copied_with_it() -> None:
    sent = msgspec.json.decode(b'{"amount_cents": 1, "br_code": " 000201\\r\\n"}', type=transfers.QrCodeTransferRequest)
    assert sent == transfers.QrCodeTransferRequest(amount_cents=1, br_code="000201")


def test_settling_dates_it() -> None:
    settled = transfers.settle_transfer(a_transfer(handed_at=NOW), LATER)
    assert (settled.status, settled.settled_at, settled.modified_at) == ("CONFIRMED", LATER, LATER)


def test_failing_says_why() -> None:
    failed = transfers.fail_transfer(a_transfer(), "AC03", "no such account", LATER)
    assert (failed.status, failed.outcome_code, failed.outcome_reason) == ("ERROR", "AC03", "no such account")
    assert failed.settled_at is None


def test_what_the_rail_cancels_has_a_code_that_no_refusal_of_ours_has() -> None:
    cancelled = transfers.cancel_incoming(a_transfer(direction="IN"), "AB03", LATER)
    assert (cancelled.status, cancelled.outcome_code) == ("ERROR", "CREDIT_CANCELLED")
    assert cancelled.outcome_reason == (
        "The network cancelled it before it settled (AB03): The payment did not settle in time."
    )


def test_only_what_was_never_handed_over_is_cancelled() -> None:
    assert transfers.cancel_transfer(a_transfer(), "too late", LATER).status == "CANCELLED"
    with pytest.raises(AssertionError):
        transfers.cancel_transfer(a_transfer(handed_at=NOW), "too late", LATER)


@pytest.mark.parametrize("status", ["CONFIRMED", "ERROR", "CANCELLED", "RETURNED"])
def test_what_has_ended_does_not_end_again(status: str) -> None:
    ended = a_transfer(status=status)
    for end in (
        lambda: transfers.settle_transfer(ended, LATER),
        lambda: transfers.fail_transfer(ended, "AC03", "", LATER),
        lambda: transfers.cancel_transfer(ended, "", LATER),
    ):
        with pytest.raises(AssertionError):
            end()


def test_it_is_returned_when_nothing_of_it_is_left() -> None:
    settled = transfers.settle_transfer(a_transfer(), NOW)
    part = transfers.return_part(settled, 999, LATER)
    assert (part.status, part.returned_cents, part.modified_at) == ("CONFIRMED", 999, LATER)
    whole = transfers.return_part(part, 1, LATER)
    assert (whole.status, whole.returned_cents, whole.settled_at) == ("RETURNED", 1000, NOW)
    with pytest.raises(AssertionError):
        transfers.return_part(part, 2, LATER)
    with pytest.raises(AssertionError):
        transfers.return_part(whole, 1, LATER)


def test_a_part_under_way_is_returned_or_kept() -> None:
    settled = transfers.settle_transfer(a_transfer(direction="IN"), NOW)
    under_way = transfers.begin_return(transfers.begin_return(settled, 300), 200)
    assert under_way.returning_cents == 500
    returned = transfers.return_part(under_way, 300, LATER, returning_cents=300)
    assert (returned.returned_cents, returned.returning_cents) == (300, 200)
    assert transfers.release_part(returned, 200).returning_cents == 0
    with pytest.raises(AssertionError):
        transfers.release_part(returned, 201)
    with pytest.raises(AssertionError):
        transfers.begin_return(a_transfer(), 1)
