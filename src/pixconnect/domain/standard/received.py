"""Received Pix: settled incoming transfers, and what they are looked for by."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

SEARCHED_MAX: Final = 100_000
"""As many are looked at one by one, by what no index knows."""


class ReceivedSearch(Struct, frozen=True, kw_only=True):
    """What received Pix must have; ``None`` is whatever."""

    txid: str | None = None
    has_txid: bool | None = None
    has_refunds: bool | None = None
    """Whether any was asked for, however it ended."""
    payer_tax_id: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether it asks for something that no index knows."""
        return not (self.has_txid is None and self.has_refunds is None and self.payer_tax_id is None)
