"""Events have the specified contents, byte for byte."""

import json
from typing import Any

import pytest

from pixconnect.kernel.rules.charge import announce_charge
from pixconnect.kernel.rules.event import EVENT_NAMES, OWN_EVENT_NAMES, EventName
from pixconnect.kernel.rules.refund import announce_refund
from pixconnect.kernel.rules.transfer import announce_transfer
from support.records import CORRELATION_ID, NOW, a_charge, a_refund, a_transfer


def test_a_charge_is_announced_with_what_its_family_has() -> None:
    event = announce_charge(a_charge(), "qrcode.pending", 5)
    assert event.body == (
        '{"id":5,"name":"qrcode.pending","payload":{"id":1,"transaction_identification":"' + "t" * 32 + '",'
        '"external_id":"order-1","status":"PENDING","create_timestamp":"2026-07-01T15:00:00.000000Z"},'
        '"create_timestamp":"2026-07-01T15:00:00.000000Z"}'
    )
    assert (event.id, event.holder_id, event.resource, event.resource_id, event.slot) == (5, 7, "charge", 1, 1)
    assert event.created_at == NOW


def test_a_transfer_is_announced_with_what_its_family_has() -> None:
    payload = json.loads(announce_transfer(a_transfer(), 5).body)["payload"]
    assert payload == {
        "id": 1,
        "external_id": "order-1",
        "end_to_end_id": "E99999003202607011500abcdefghijk",
        "correlation_id": str(CORRELATION_ID),
        "amount": 1000,
        "impact_type": "OUT",
        "initiation_type": "KEY",
        "status": "PROCESSING",
        "create_timestamp": "2026-07-01T15:00:00.000000Z",
    }
    received = a_transfer(direction="IN", external_id=None, fingerprint=None, status="CONFIRMED")
    assert "external_id" not in json.loads(announce_transfer(received, 5).body)["payload"]


def test_a_refund_is_announced_with_what_its_family_has() -> None:
    payload = json.loads(announce_refund(a_refund(), 5).body)["payload"]
    assert payload == {
        "id": 1,
        "external_id": "refund-1",
        "return_identification": "D99999003202607011500abcdefghijk",
        "original_end_to_end_id": "E99999004202607011500abcdefghijk",
        "correlation_id": str(CORRELATION_ID),
        "amount": 400,
        "status": "PROCESSING",
        "flow": "OUT",
        "create_timestamp": "2026-07-01T15:00:00.000000Z",
    }


NAMES: list[tuple[dict[str, Any], EventName]] = [
    ({"status": "PROCESSING"}, "transfer.out.processing"),
    ({"status": "CONFIRMED"}, "transfer.out.confirmed"),
    ({"status": "ERROR"}, "transfer.out.error"),
    ({"status": "CANCELLED"}, "transfer.out.error"),
    ({"direction": "IN", "status": "PROCESSING"}, "transfer.in.processing"),
    ({"direction": "IN", "status": "CONFIRMED"}, "transfer.in.confirmed"),
    ({"direction": "IN", "status": "ERROR"}, "transfer.in.error"),
    ({"flow": "OUT", "status": "PROCESSING"}, "refund.out.processing"),
    ({"flow": "OUT", "status": "RETURNED"}, "refund.out.returned"),
    ({"flow": "OUT", "status": "ERROR"}, "refund.out.error"),
    ({"flow": "IN", "status": "PROCESSING"}, "refund.in.processing"),
    ({"flow": "IN", "status": "RETURNED"}, "refund.in.returned"),
    ({"flow": "IN", "status": "ERROR"}, "refund.in.error"),
]


@pytest.mark.parametrize(("changes", "name"), NAMES)
def test_every_state_has_its_name(changes: dict[str, Any], name: EventName) -> None:
    is_refund = name.startswith("refund")
    event = announce_refund(a_refund(**changes), 5) if is_refund else announce_transfer(a_transfer(**changes), 5)
    assert event.name == name
    assert json.loads(event.body)["payload"]["status"] == changes["status"]


def test_the_names_are_the_fifteen_of_the_specification_and_ours() -> None:
    charges = {"qrcode.pending", "qrcode.approved", "qrcode.expired"}
    assert charges | {name for _, name in NAMES} == EVENT_NAMES - set(OWN_EVENT_NAMES)
    assert len(EVENT_NAMES) - len(OWN_EVENT_NAMES) == 15
