"""Builders of records: valid by default, and one keyword changes one thing."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from pixconnect.features.webhooks.rules.delivery import DueDelivery
from pixconnect.features.webhooks.rules.endpoint import Endpoint
from pixconnect.kernel.flows.context import Policy
from pixconnect.kernel.flows.holder import NewHolder
from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import ChargePayload, Event, EventName
from pixconnect.kernel.rules.holder import Party, parse_pix_key
from pixconnect.kernel.rules.rail import Abilities, ReturnReport
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base.errors import Violated

NOW = datetime(2026, 7, 1, 15, 0, tzinfo=UTC)
ISPB = "99999003"
OUTSIDE_ISPB = "99999004"
AT = datetime(2026, 7, 1, 15, 0, 0, 123456, UTC)
E2E = "E99999004202607011500abcdefghijk"
RETURN_ID = "D99999003202607011500abcdefghijk"
CORRELATION_ID = UUID("0197c3a1-0000-4000-8000-000000000001")


def a_charge(**changes: Any) -> Charge:
    values: dict[str, Any] = {
        "id": 1, "holder_id": 7, "external_id": "order-1", "fingerprint": b"", "txid": "t" * 32, "amount_cents": 1000,
        "key": "maria@test.example", "payer": None, "br_code": "000201", "status": "PENDING", "slot": 1,
        "created_at": NOW, "modified_at": NOW, "expires_at": NOW.replace(day=2),
    }  # fmt: skip
    return Charge(**(values | changes))


def a_transfer(**changes: Any) -> Transfer:
    values: dict[str, Any] = {
        "id": 1,
        "holder_id": 7,
        "direction": "OUT",
        "initiation_type": "KEY",
        "is_book": False,
        "external_id": "order-1",
        "fingerprint": b"",
        "end_to_end_id": "E99999003202607011500abcdefghijk",
        "correlation_id": CORRELATION_ID,
        "txid": None,
        "amount_cents": 1000,
        "status": "PROCESSING",
        "own_key": None,
        "counterparty": Party(
            account_number="1", account_type="CHECKING", branch="1", ispb="99999004", name="Joana", tax_id="12345678909"
        ),
        "slot": 1,
        "created_at": NOW,
        "modified_at": NOW,
    }
    return Transfer(**(values | changes))


def a_refund(**changes: Any) -> Refund:
    values: dict[str, Any] = {
        "id": 1,
        "holder_id": 7,
        "transfer_id": 2,
        "flow": "OUT",
        "is_book": False,
        "external_id": "refund-1",
        "fingerprint": b"",
        "return_id": "D99999003202607011500abcdefghijk",
        "original_end_to_end_id": "E99999004202607011500abcdefghijk",
        "correlation_id": CORRELATION_ID,
        "amount_cents": 400,
        "status": "PROCESSING",
        "reason": "MD06",
        "description": None,
        "slot": 1,
        "created_at": NOW,
        "modified_at": NOW,
    }
    return Refund(**(values | changes))


def a_return(end_to_end_id: str, **changes: Any) -> ReturnReport:
    """The rail's report of money that comes back."""
    values = dict[str, Any](
        report_id="r", return_id=f"D{OUTSIDE_ISPB}202607011500abcdefghijk", original_end_to_end_id=end_to_end_id,
        amount_cents=1000, reason="MD06", description=None, reported_at=NOW,
    )  # fmt: skip
    return ReturnReport(**(values | changes))


def a_policy(**changes: Any) -> Policy:
    values: dict[str, Any] = {
        "ispb": ISPB,
        "institution_name": "Pix Connect Sandbox",
        "location_prefix": "127.0.0.1:8080/qr/",
        "location_key_set_url": "http://127.0.0.1:8080/qr/jwks.json",
        "auth_url": "http://127.0.0.1:8080",
        "is_sandbox": True,
        # As over the sandbox's rail.
        "abilities": Abilities(contests="theirs", defence_length_max=1000),
    }
    return Policy(**(values | changes))


PERSON: Final = "52998224725"  # the tax id of holders by default
FIRM: Final = "12345678000195"


def a_new_holder(**changes: Any) -> NewHolder:
    values: dict[str, Any] = {
        "name": "Maria Souza", "tax_id": PERSON, "branch": "0001", "account_number": "1",
        "street": "Rua das Flores, 1", "state": "SP", "postal_code": "01310100",
    }  # fmt: skip
    return NewHolder(**(values | changes))


def own_key(account_number: str = "1") -> str:
    return f"holder-{account_number}@test.example"


def outside_party(*, key: str | None = None, account_number: str = "1001") -> Party:
    parsed = None if key is None else parse_pix_key(key)
    return Party(
        account_number=account_number, account_type="CHECKING", branch="0001", ispb=OUTSIDE_ISPB, name="Joana Prado",
        tax_id="12345678909", key=parsed and parsed.key, key_type=parsed and parsed.key_type,
    )  # fmt: skip


def make_delivery(**changes: Any) -> DueDelivery:
    fields: dict[str, Any] = {
        "id": 1, "holder_id": 1, "endpoint_id": 1, "event_id": 1, "resource": "charge", "resource_id": 1, "slot": 1,
        "due_at": NOW, "attempts_count": 0, "failures_count": 0, "body": "{}",
    }  # fmt: skip
    return DueDelivery(**(fields | changes))


def make_endpoint(**changes: Any) -> Endpoint:
    """An active endpoint."""
    fields: dict[str, Any] = {
        "id": 5, "holder_id": 1, "url": "https://shop.example/", "event_types": ("qrcode.pending",), "secret_sealed": b"first",
        "created_at": NOW, "modified_at": NOW,
    }  # fmt: skip
    return Endpoint(**(fields | changes))


def make_event(event_id: int, holder_id: int, resource_id: int, name: EventName, now: Any) -> Event:
    payload = ChargePayload(
        id=resource_id,
        transaction_identification="a" * 32,
        external_id=f"order-{resource_id}",
        status="PENDING",
        create_timestamp="2026-11-20T12:00:00.000000Z",
    )
    return Event(
        id=event_id,
        holder_id=holder_id,
        name=name,
        resource="charge",
        resource_id=resource_id,
        slot=resource_id % 256,
        body=events.encode_body(event_id, name, payload, now),
        created_at=now,
    )


def broken(refusal: Violated) -> list[str]:
    """The properties that a refusal names."""
    return [row.property for row in refusal.rows]
