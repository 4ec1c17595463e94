"""Filters for the standard door's list of charges."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pixconnect.domain.money.charge import ChargeStatus


class ChargeSearch(Struct, frozen=True, kw_only=True):
    statuses: Sequence[ChargeStatus]
    has_due_date: bool = False
    """Which of the two kinds of charges."""
    lot_number: int | None = None
    """The lot that has made it, of those with a due date."""
    tax_id: str | None = None
    """The payer's."""
    is_placed: bool | None = None
    """Whether a location leads to it; ``None`` is either."""
