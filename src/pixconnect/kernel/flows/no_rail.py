"""The rail of live mode where none is configured: it is never reachable.

Callers can create and read charges. Transfers wait, are then cancelled, and their money is released. Health reports the rail as
unreachable. Nothing is sent, so no order is ever marked as handed over (``Policy.has_rail``). For orders that an earlier
adapter marked, this one reports that it cannot know.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import ClassVar

from pixconnect.kernel.rules.block_report import Defence, DefenceAnswer, DefenceUnknown
from pixconnect.kernel.rules.rail import (
    Abilities,
    Acknowledgement,
    DirectoryEntry,
    NotTaken,
    Order,
    Position,
    QueryAnswer,
    RailUnavailable,
    RefundOrder,
    Report,
    SettledItem,
    SubmitAnswer,
)


class NoRail:
    reason: ClassVar = "no rail is set for live mode"
    # We refuse nothing here: a later adapter may be able to do all of it.
    abilities = Abilities()

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        raise RailUnavailable(self.reason)

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        return [NotTaken() for _ in orders]

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        return [NotTaken() for _ in orders]

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        raise RailUnavailable(self.reason)

    async def defend(self, defences: Sequence[Defence]) -> list[DefenceAnswer]:
        return [DefenceUnknown() for _ in defences]

    async def reports(self, wait_s: float) -> list[Report]:
        await asyncio.sleep(wait_s)
        return []

    async def waiting_since(self) -> datetime | None:
        return None

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        raise RailUnavailable(self.reason)

    async def statement(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[SettledItem]]:
        raise RailUnavailable(self.reason)
        yield []  # makes it an iterator, as the port has it

    async def position(self) -> Position:
        raise RailUnavailable(self.reason)

    async def check(self) -> None:
        raise RailUnavailable(self.reason)
