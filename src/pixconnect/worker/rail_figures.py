"""Counts what a worker and the rail say to each other, for who watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pixconnect.domain.rail import (
    Acknowledgement,
    AlreadyKnown,
    CreditReport,
    DirectoryEntry,
    NeverTaken,
    NotTaken,
    Order,
    QueryAnswer,
    Rail,
    RailUnavailable,
    RefundOrder,
    Rejected,
    RejectedReport,
    Report,
    ReturnReport,
    Settled,
    SettledReport,
    SubmitAnswer,
    Taken,
    Unknown,
)

ANSWERS: Final[Mapping[type[SubmitAnswer | QueryAnswer], str]] = {
    Taken: "taken",
    Settled: "settled",
    Rejected: "rejected",
    AlreadyKnown: "already_known",
    NotTaken: "not_taken",
    Unknown: "unknown",
    NeverTaken: "never_taken",
}
REPORTS: Final[Mapping[type[Report], str]] = {
    CreditReport: "credit",
    SettledReport: "settled",
    RejectedReport: "rejected",
    ReturnReport: "return",
}
UNAVAILABLE: Final = "unavailable"


class RailFigures:
    """What was said since the worker started.

    Attributes:
        submissions: By ``transfer`` or ``refund`` and by answer; every sending counts.
        questions: By answer.
        reports: By what was reported; one that came again counts again.
        acknowledgements: By our word, ``accepted`` or ``refused``.
    """

    def __init__(self) -> None:
        self.submissions: Counter[tuple[str, str]] = Counter()
        self.questions: Counter[str] = Counter()
        self.reports: Counter[str] = Counter()
        self.acknowledgements: Counter[str] = Counter()


class WatchedRail:
    """A rail whose answers are counted on their way.

    Args:
        rail: The one that answers.
        figures: Where they are counted.
    """

    def __init__(self, rail: Rail, figures: RailFigures) -> None:
        self._rail = rail
        self._figures = figures

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        """As the rail does."""
        return await self._rail.lookup_key(key, payer_tax_id, end_to_end_id)

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        """As the rail does."""
        return self._note("transfer", await self._rail.submit(orders))

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        """As the rail does."""
        return self._note("refund", await self._rail.submit_refunds(orders))

    def _note(self, kind: str, answers: list[SubmitAnswer]) -> list[SubmitAnswer]:
        for answer in answers:
            self._figures.submissions[kind, ANSWERS[type(answer)]] += 1
        return answers

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        """As the rail does."""
        try:
            answers = await self._rail.query(ids)
        except RailUnavailable:
            self._figures.questions[UNAVAILABLE] += len(ids)
            raise
        for answer in answers:
            self._figures.questions[ANSWERS[type(answer)]] += 1
        return answers

    async def reports(self, wait_s: float) -> list[Report]:
        """As the rail does."""
        reports = await self._rail.reports(wait_s)
        for report in reports:
            self._figures.reports[REPORTS[type(report)]] += 1
        return reports

    async def waiting_since(self) -> datetime | None:
        """As the rail does."""
        return await self._rail.waiting_since()

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """As the rail does; our word counts when the rail has heard it."""
        await self._rail.acknowledge(acknowledgements)
        for acknowledgement in acknowledgements:
            self._figures.acknowledgements["accepted" if acknowledgement.refusal_code is None else "refused"] += 1

    async def check(self) -> None:
        """As the rail does."""
        await self._rail.check()
