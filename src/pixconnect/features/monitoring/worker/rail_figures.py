"""Counts the messages between a worker and the rail, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pixconnect.kernel.rules.rail import (
    Acknowledgement,
    Order,
    QueryAnswer,
    Rail,
    RailUnavailable,
    RefundOrder,
    Report,
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


class WrappedRail:
    """Passes on the calls that a wrapper does not change."""

    def __init__(self, rail: Rail) -> None:
        self._rail = rail
        self.abilities = rail.abilities
        self.lookup_key, self.defend, self.statement = rail.lookup_key, rail.defend, rail.statement
        self.waiting_since, self.position, self.check = rail.waiting_since, rail.position, rail.check


class CountingRail(WrappedRail):
    def __init__(self, rail: Rail, figures: RailFigures) -> None:
        super().__init__(rail)
        self._figures = figures

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

    async def reports(self, wait_s: float) -> list[Report]:
        reports = await self._rail.reports(wait_s)
        for report in reports:
            self._figures.reports[name_message(type(report))] += 1
        return reports

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        # Counted afterwards: an acknowledgement that did not arrive is sent again.
        await self._rail.acknowledge(acknowledgements)
        for acknowledgement in acknowledgements:
            self._figures.acknowledgements["accepted" if acknowledgement.refusal_code is None else "refused"] += 1
