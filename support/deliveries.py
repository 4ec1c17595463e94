"""Deliveries as workers read them, for tests without a database."""

from datetime import UTC, datetime
from typing import Any

from pixconnect.domain.webhook import DueDelivery

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def make_delivery(**changes: Any) -> DueDelivery:
    """A first attempt."""
    fields: dict[str, Any] = {
        "id": 1,
        "holder_id": 1,
        "endpoint_id": 1,
        "event_id": 1,
        "resource": "charge",
        "resource_id": 1,
        "slot": 1,
        "due_at": NOW,
        "attempts_count": 0,
        "failures_count": 0,
        "body": "{}",
    }
    return DueDelivery(**(fields | changes))
