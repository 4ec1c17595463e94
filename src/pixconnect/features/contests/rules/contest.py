"""Contests by payers, as an institution lists them, and their reports by a rail.

An institution reports the state of a contest, and lists returns with their Pix, perhaps without the contest behind a return.
Then a contest's returns are those of its Pix since the contest was opened, without our request, up to the contested sum.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from msgspec import Struct

from pixconnect.features.contests.rules.infraction import Infraction
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.register.register import ARRANGEMENT
from pixconnect.kernel.rules.block_report import (
    Defence,
    DefenceAnswer,
    InfractionReason,
    InfractionReport,
    InfractionState,
    Situation,
    TakenPart,
)
from pixconnect.kernel.rules.holder import Party

ContestWord = Literal["open", "answered", "accepted", "rejected"]

_STEPS: Final = dict[ContestWord, int]((("open", 0), ("answered", 1), ("accepted", 2), ("rejected", 3)))


class ListedContest(Struct, frozen=True, kw_only=True):
    """A contest of a received Pix, in its present state."""

    name: str
    """The institution's name, unique on the account."""
    end_to_end_id: str
    amount_cents: int
    status: ContestWord
    """``accepted``: it returns, or has returned, the available money."""
    reason: InfractionReason
    situation: Situation
    words: str | None
    defence: str | None
    """The answer, sent by us or by a person at the institution."""
    opened_at: datetime
    respond_by: datetime
    reported_at: datetime
    """When the institution last changed it."""


class Contests(Protocol):
    """Contests of an account's received Pix, if the institution reports them: it decides and returns."""

    @property
    def text_length_max(self) -> int: ...

    def list_contests(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[ListedContest | MalformedItem]]:
        """Yield pages of contests of an interval; shifting pages may repeat one."""
        ...

    async def defend(self, defence: Defence) -> DefenceAnswer:
        """Answer a contest; repetitions are idempotent."""
        ...


def report_contest(
    contest: ListedContest, party: Party, returned: Sequence[TakenPart], now: datetime
) -> InfractionReport:
    """Report a contest's whole present state, the same for each reading; ``now`` is real time, by which its times end."""
    taken = _choose_taken(contest, returned) if contest.status == "accepted" else ()
    rest_cents = contest.amount_cents - sum(part.amount_cents for part in taken)
    until = contest.opened_at + ARRANGEMENT.find("contest_block", contest.opened_at).duration
    state: InfractionState = "answered" if contest.status == "answered" else "open"
    held_cents, wanted_cents, reported_at, respond_by = rest_cents, rest_cents, contest.reported_at, contest.respond_by
    # A later state counts as reported later, even if the institution dates no change, or dates a return earlier.
    step = _STEPS[contest.status]
    if contest.status == "rejected":
        state, held_cents, wanted_cents = "released", 0, 0
    elif contest.status == "accepted":
        # Answers are no longer accepted; the money is blocked until it has gone.
        respond_by = min(respond_by, contest.reported_at)
        if taken or now >= until:
            state, held_cents, step = "taken", 0, step + 1 + len(taken)
            reported_at = max(reported_at, taken[-1].settled_at if taken else until)
            began_at = taken[0].settled_at if taken else until
            ends_at = began_at + ARRANGEMENT.find("rest_followed", began_at).duration
            # Later incoming money is blocked up to the rest, for this time only.
            if now >= ends_at:
                wanted_cents, reported_at = 0, max(reported_at, ends_at)
    reported_at += timedelta(microseconds=step)
    return InfractionReport(
        report_id=f"{contest.name}/{state}/{contest.amount_cents - rest_cents}/{int(reported_at.timestamp())}",
        name=contest.name,
        party=party,
        end_to_end_id=contest.end_to_end_id,
        amount_cents=contest.amount_cents,
        reason=contest.reason,
        situation=contest.situation,
        words=contest.words,
        state=state,
        opened_at=contest.opened_at,
        respond_by=respond_by,
        wanted_cents=wanted_cents,
        held_cents=held_cents,
        taken=tuple(taken),
        reported_at=reported_at,
        until=until,
    )


def _choose_taken(contest: ListedContest, returned: Sequence[TakenPart]) -> Sequence[TakenPart]:
    taken, left_cents = list[TakenPart](), contest.amount_cents
    for part in sorted(returned, key=lambda part: (part.settled_at, part.return_id)):
        # Returns before the contest was opened do not belong to it.
        if part.settled_at >= contest.opened_at and part.amount_cents <= left_cents:
            taken.append(part)
            left_cents -= part.amount_cents
    return taken


def is_repetition(known: Infraction, report: InfractionReport) -> bool:
    """Whether a report contains nothing new: lists are read repeatedly."""
    return (
        known.reported_at >= report.reported_at
        and (known.state, known.amount_cents, known.end_to_end_id, known.reason)
        == (report.state, report.amount_cents, report.end_to_end_id, report.reason)
        and known.taken_cents == sum(part.amount_cents for part in report.taken)
    )
