"""Sending events again: what a caller, an operator or somebody at the console wants sent, and how far that is."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.webhooks.delivery import DeliveryStatus

RedeliveryStatus = Literal["running", "done", "cancelled"]


class RedeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries; both bounds are included."""

    holder_id: int | None = None
    """``None`` is all holders, which only operators may name."""
    endpoint_id: int | None = None
    """``None`` is all that the holder has."""
    statuses: tuple[DeliveryStatus, ...] = ("failed",)
    event_types: tuple[str, ...] = ()
    """Empty is all."""
    initial_at: datetime | None = None
    final_at: datetime | None = None


class RedeliveryJob(Struct, frozen=True, kw_only=True):
    """A filter for one holder, and how far the job is: in the database, or in the memory of whoever waits for its end."""

    id: int
    """0 of one that is not kept."""
    holder_id: int
    asked_by: str
    endpoint_id: int | None
    statuses: tuple[DeliveryStatus, ...]
    event_types: tuple[str, ...]
    initial_at: datetime
    final_at: datetime
    """Of one that is kept at the latest when it was made: what came after is none of its."""
    status: RedeliveryStatus
    expected_count: int
    """As counted before."""
    looked_at_count: int
    redelivered_count: int
    at_endpoint_id: int
    """For this endpoint the job has gone through everything up to ``at_instant`` and ``at_id``, and all endpoints before it."""
    at_instant: datetime | None
    """``None`` if this endpoint is the next one, and nothing of it was looked at."""
    at_id: int
    created_at: datetime
    ended_at: datetime | None
