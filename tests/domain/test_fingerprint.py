"""A replay has the same contents; anything else is a conflict."""

from typing import Any

from pixconnect.domain.charge import ChargeRequest, Payer
from pixconnect.domain.fingerprint import fingerprint
from pixconnect.domain.refund import RefundRequest
from pixconnect.domain.transfer import KeyTransferRequest, QrCodeTransferRequest


def a_request(**changes: Any) -> ChargeRequest:
    return ChargeRequest(**{"amount_cents": 1, "key": "k", **changes})


def test_the_external_id_is_what_it_is_compared_under_and_no_part_of_it() -> None:
    assert fingerprint(a_request(external_id="a")) == fingerprint(a_request(external_id=None))


def test_everything_else_counts_as_it_was_sent() -> None:
    payer = Payer(name="A", tax_id="1")
    others = [
        a_request(amount_cents=2),
        a_request(key="K"),
        a_request(payer=payer),
        a_request(payer=Payer(name="A ", tax_id="1")),
        a_request(amount_cents=10**400),
    ]
    prints = {fingerprint(request) for request in (a_request(), *others)}
    assert len(prints) == len(others) + 1
    assert all(len(one) == 16 for one in prints)


def test_defaults_count_as_if_they_had_been_sent() -> None:
    sent = RefundRequest(end_to_end_id="E", amount_cents=1, reason="MD06", description=None)
    assert fingerprint(sent) == fingerprint(RefundRequest(end_to_end_id="E", amount_cents=1))


def test_the_operation_counts() -> None:
    by_key = KeyTransferRequest(amount_cents=1, key="x", key_type="EMAIL")
    by_code = QrCodeTransferRequest(amount_cents=1, br_code="x")
    assert fingerprint(by_key) != fingerprint(by_code)
