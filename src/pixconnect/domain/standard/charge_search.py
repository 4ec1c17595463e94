"""Which charges a list of the standard's door is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pixconnect.domain.money.charge import ChargeStatus


class ChargeSearch(Struct, frozen=True, kw_only=True):
    statuses: Sequence[ChargeStatus]
    tax_id: str | None = None
    """Of who is asked to pay."""
    is_placed: bool | None = None
    """Whether a location leads to it; ``None`` is either."""
