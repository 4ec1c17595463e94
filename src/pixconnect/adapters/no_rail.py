"""The rail of live mode for as long as there is no adapter to an institution: it cannot be reached.

Charges can be made and read; transfers wait, and are given up with their money back; health says that the rail is away. Nothing
is ever sent anywhere, so nothing is ever marked as handed over (``Policy.has_rail``). What an adapter of before has marked is
that adapter's to answer for: this one knows nothing of it, and says so.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from pixconnect.domain.rail import (
    Acknowledgement,
    DirectoryEntry,
    NotTaken,
    Order,
    QueryAnswer,
    RailUnavailable,
    RefundOrder,
    Report,
    SubmitAnswer,
)

_REASON = "live mode has no rail adapter yet"


class NoRail:
    """Nobody at the other end."""

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        """Never answered."""
        raise RailUnavailable(_REASON)

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        """Nothing leaves."""
        return [NotTaken() for _ in orders]

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        """Nothing leaves."""
        return [NotTaken() for _ in orders]

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        """Never answered."""
        raise RailUnavailable(_REASON)

    async def reports(self, wait_s: float) -> list[Report]:
        """Nothing happens."""
        await asyncio.sleep(wait_s)
        return []

    async def waiting_since(self) -> datetime | None:
        """Nothing happens, so nothing waits."""
        return None

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Nobody listens."""
        raise RailUnavailable(_REASON)

    async def check(self) -> None:
        """It never answers."""
        raise RailUnavailable(_REASON)
