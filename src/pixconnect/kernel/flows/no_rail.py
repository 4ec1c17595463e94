"""The rail of live mode where none is configured: it is never reachable.

Callers can create and read charges. Transfers wait, are then cancelled, and their money is released. Health reports the rail as
unreachable. Nothing is sent, so no order is ever marked as handed over (``Policy.has_rail``). For orders that an earlier
adapter marked, this one reports that it cannot know.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import ClassVar

from pixconnect.kernel.rules import rail
from pixconnect.kernel.rules.rail import Message, MessageAnswer, MessageKind


class NoRail:
    reason: ClassVar = "no rail is set for live mode"
    # We refuse nothing here: a later adapter may be able to do all of it.
    abilities = rail.Abilities()

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> rail.DirectoryEntry | None:
        raise rail.RailUnavailable(self.reason)

    async def submit(self, orders: Sequence[rail.Order]) -> list[rail.SubmitAnswer]:
        return [rail.NotTaken() for _ in orders]

    async def submit_refunds(self, orders: Sequence[rail.RefundOrder]) -> list[rail.SubmitAnswer]:
        return [rail.NotTaken() for _ in orders]

    async def query(self, ids: Sequence[str]) -> list[rail.QueryAnswer]:
        raise rail.RailUnavailable(self.reason)

    async def send(self, kind: MessageKind[Message, MessageAnswer], messages: Sequence[Message]) -> list[MessageAnswer]:
        return [kind.unknown for _ in messages]

    async def reports(self, wait_s: float) -> list[rail.Report]:
        await asyncio.sleep(wait_s)
        return []

    async def waiting_since(self) -> datetime | None:
        return None

    async def acknowledge(self, acknowledgements: Sequence[rail.Acknowledgement]) -> None:
        raise rail.RailUnavailable(self.reason)

    async def statement(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[rail.SettledItem]]:
        raise rail.RailUnavailable(self.reason)
        yield []  # makes it an iterator, as the port has it

    async def position(self) -> rail.Position:
        raise rail.RailUnavailable(self.reason)

    async def check(self) -> None:
        raise rail.RailUnavailable(self.reason)
