"""Returns of sent Pix by their payees, as an institution lists them beside its sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

from pixconnect.features.institutions.rules.malformed_item import MalformedItem

SPAN: Final = timedelta(days=100)
"""A payee may return a Pix for 90 days; lists go by when it was sent."""


class SentReturn(Struct, frozen=True, kw_only=True):
    end_to_end_id: str
    """The network's, of the Pix that was sent."""
    return_id: str
    amount_cents: int
    settled_at: datetime


class SentReturns(Protocol):
    def list_returns(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SentReturn | MalformedItem]]:
        """Pages of returns of the Pix that were sent in an interval, in no order."""
        ...
