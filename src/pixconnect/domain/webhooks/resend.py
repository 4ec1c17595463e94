"""Sending many deliveries of one holder again, as a job."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.webhooks.delivery import DeliveryStatus

ResendStatus = Literal["running", "done", "cancelled"]


class ResendFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries; both bounds are included."""

    holder_id: int
    endpoint_id: int | None = None
    """``None`` is all that the holder has."""
    statuses: tuple[DeliveryStatus, ...] = ("failed",)
    event_types: tuple[str, ...] = ()
    initial_at: datetime | None = None
    final_at: datetime | None = None


class ResendJob(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    asked_by: str
    endpoint_id: int | None
    statuses: tuple[DeliveryStatus, ...]
    event_types: tuple[str, ...]
    initial_at: datetime
    final_at: datetime
    """At the latest when the job was made: what came after is none of its."""
    status: ResendStatus
    expected_count: int
    """As counted before."""
    looked_at_count: int
    resent_count: int
    at_endpoint_id: int
    """Of this endpoint everything up to ``at_instant`` and ``at_id`` was looked at, and all of those before it."""
    at_instant: datetime | None
    at_id: int
    created_at: datetime
    ended_at: datetime | None
