"""Received Pix: settled incoming transfers, and their search conditions."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SEARCHED_MAX: Final = 100_000
"""The maximum scanned, for conditions without an index."""


class ReceivedSearch(Struct, frozen=True, kw_only=True):
    """Conditions that a received Pix must meet; ``None`` means any."""

    txid: str | None = None
    has_txid: bool | None = None
    has_refunds: bool | None = None
    """Whether it has a refund, in any state."""
    payer_tax_id: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether it filters by a field without an index."""
        return not (self.has_txid is None and self.has_refunds is None and self.payer_tax_id is None)
