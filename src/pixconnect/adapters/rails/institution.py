"""The rail that is an account at an institution, as far as receiving needs it: nothing is sent over it yet.

What came in is read by sweeps (``usecases/institutions``) and taken as reports, so this rail has none of its own; nobody there
waits for an acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from pixconnect.adapters.system import SystemClock
from pixconnect.domain.institutions.account import ABILITIES
from pixconnect.domain.institutions.institution import Institution, InstitutionUnavailable
from pixconnect.domain.money.rail import (
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

_NO_SENDING = "nothing is sent over accounts at institutions yet"


class InstitutionRail:
    abilities = ABILITIES

    def __init__(self, institution: Institution) -> None:
        self._institution = institution

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        raise RailUnavailable(_NO_SENDING)

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        return [NotTaken() for _ in orders]

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        return [NotTaken() for _ in orders]

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        raise RailUnavailable(_NO_SENDING)

    async def reports(self, wait_s: float) -> list[Report]:
        await asyncio.sleep(wait_s)
        return []

    async def waiting_since(self) -> datetime | None:
        return None

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Nobody waits for it there: what is listed has settled."""

    async def statement(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[SettledItem]]:
        raise RailUnavailable("days are compared item by item, not by this statement")
        yield []  # makes it an iterator, as the port has it

    async def position(self) -> Position:
        try:
            return Position(amount_cents=await self._institution.read_balance(), as_of=SystemClock().real_now())
        except InstitutionUnavailable as error:
            raise RailUnavailable(error.reason) from error

    async def check(self) -> None:
        try:
            await self._institution.read_balance()
        except InstitutionUnavailable as error:
            raise RailUnavailable(error.reason) from error
