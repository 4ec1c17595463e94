"""Builders of records: valid as they are, one keyword changes one thing."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pixconnect.domain.charge import Charge
from pixconnect.domain.holder import Party
from pixconnect.domain.refund import Refund
from pixconnect.domain.transfer import Transfer
from pixconnect.usecases.context import Policy
from pixconnect.usecases.holder import NewHolder

NOW = datetime(2026, 7, 1, 15, 0, tzinfo=UTC)
ISPB = "99999003"
CORRELATION_ID = UUID("0197c3a1-0000-4000-8000-000000000001")


def a_charge(**changes: Any) -> Charge:
    values: dict[str, Any] = {
        "id": 1,
        "holder_id": 7,
        "external_id": "order-1",
        "fingerprint": b"",
        "txid": "t" * 32,
        "amount_cents": 1000,
        "key": "maria@test.example",
        "payer": None,
        "br_code": "000201",
        "status": "PENDING",
        "slot": 1,
        "created_at": NOW,
        "modified_at": NOW,
        "expires_at": NOW.replace(day=2),
    }
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
        "charge_id": None,
        "amount_cents": 1000,
        "status": "PROCESSING",
        "own_key": None,
        "counterparty": Party(
            account_number="1", account_type="CHECKING", branch="1", ispb="99999004", name="Joana", tax_id="12345678909"
        ),
        "outcome_code": None,
        "outcome_reason": None,
        "returned_cents": 0,
        "returning_cents": 0,
        "slot": 1,
        "handed_at": None,
        "settled_at": None,
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
        "outcome_code": None,
        "outcome_reason": None,
        "slot": 1,
        "handed_at": None,
        "settled_at": None,
        "created_at": NOW,
        "modified_at": NOW,
    }
    return Refund(**(values | changes))


def a_policy(**changes: Any) -> Policy:
    values: dict[str, Any] = {
        "ispb": ISPB,
        "institution_name": "Pix Connect Sandbox",
        "location_prefix": "127.0.0.1:8080/qr/",
        "location_key_set_url": "http://127.0.0.1:8080/qr/jwks.json",
        "auth_url": "http://127.0.0.1:8080",
        "charge_lifetime_s": 86_400,
        "handover_timeout_s": 60,
        "is_sandbox": True,
    }
    return Policy(**(values | changes))


def a_new_holder(**changes: Any) -> NewHolder:
    values: dict[str, Any] = {
        "name": "Maria Souza",
        "tax_id": "52998224725",
        "branch": "0001",
        "account_number": "1",
    }
    return NewHolder(**(values | changes))
