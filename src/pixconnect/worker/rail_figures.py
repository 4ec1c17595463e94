"""Counts the messages between a worker and the rail, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from pixconnect.domain.money.block_report import Defence, DefenceAnswer
from pixconnect.domain.money.rail import (
    Acknowledgement,
    DirectoryEntry,
    Order,
    Position,
    QueryAnswer,
    Rail,
    RailUnavailable,
    RefundOrder,
    Report,
    SettledItem,
    SubmitAnswer,
)

UNAVAILABLE: Final = "unavailable"


class RailFigures:
    """Counts since the worker started; a message that was repeated counts again."""

    def __init__(self) -> None:
        self.submissions: Counter[tuple[str, str]] = Counter()
        """By ``transfer`` or ``refund``, and by answer."""
        self.questions: Counter[str] = Counter()
        self.reports: Counter[str] = Counter()
        self.acknowledgements: Counter[str] = Counter()


def name_message(kind: type[SubmitAnswer | QueryAnswer | Report]) -> str:
    """Return the label under which a message of the rail is counted: its tag."""
    return str(kind.__struct_config__.tag)


class CountingRail:
    def __init__(self, rail: Rail, figures: RailFigures) -> None:
        self._rail = rail
        self._figures = figures
        self.abilities = rail.abilities

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        return await self._rail.lookup_key(key, payer_tax_id, end_to_end_id)

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        return self._note("transfer", await self._rail.submit(orders))

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        return self._note("refund", await self._rail.submit_refunds(orders))

    def _note(self, kind: str, answers: list[SubmitAnswer]) -> list[SubmitAnswer]:
        for answer in answers:
            self._figures.submissions[kind, name_message(type(answer))] += 1
        return answers

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        try:
            answers = await self._rail.query(ids)
        except RailUnavailable:
            # Submissions need no such branch: a rail that cannot be reached answers them with ``NotTaken`` or ``Unknown``.
            self._figures.questions[UNAVAILABLE] += len(ids)
            raise
        for answer in answers:
            self._figures.questions[name_message(type(answer))] += 1
        return answers

    async def defend(self, defences: Sequence[Defence]) -> list[DefenceAnswer]:
        return await self._rail.defend(defences)

    async def reports(self, wait_s: float) -> list[Report]:
        reports = await self._rail.reports(wait_s)
        for report in reports:
            self._figures.reports[name_message(type(report))] += 1
        return reports

    async def waiting_since(self) -> datetime | None:
        return await self._rail.waiting_since()

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        # Counted afterwards: an acknowledgement that did not arrive is sent again.
        await self._rail.acknowledge(acknowledgements)
        for acknowledgement in acknowledgements:
            self._figures.acknowledgements["accepted" if acknowledgement.refusal_code is None else "refused"] += 1

    def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        return self._rail.statement(since, until)

    async def position(self) -> Position:
        return await self._rail.position()

    async def check(self) -> None:
        await self._rail.check()
