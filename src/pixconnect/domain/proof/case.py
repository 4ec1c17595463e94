"""A case: something that an institution or the rail says and we do not know, or the other way round.

::

    found ──► open ──► recorded            the missing fact came under its own id
               ▲  ├──► adjusted            what has no id was adjusted, by two operators
               │  ├──► decided             two operators have said, by evidence, how an order ended
               │  └──► closed              by an operator's word
               └── it came back, or came back with another amount

Who finds the difference opens the case, and looks again: what is not different any more has ended by itself. An operator's word
ends it for the amount that it was about; a case moves no money.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

CaseKind = Literal["report", "day", "rail", "order", "account", "waits", "file"]
"""A report of the rail that waits for an operator; a day of an account on which its statement and the books disagree; what
``verify`` found when it compared with the rail; an order over an account at an institution of which nobody there can say how it
ended; an account whose balance at its institution is not that of the books; a refund that is to leave and may not; the first of
the institution's own statement files, which a person has to confirm."""
CaseEnd = Literal["recorded", "adjusted", "closed", "decided"]

TEXT_LENGTH_MAX: Final = 1000


class Difference(Struct, frozen=True, kw_only=True):
    """What is different now, as it was found."""

    kind: CaseKind
    institution_id: int | None
    name: str
    """One difference has one name, however often it is found."""
    holder_id: int | None = None
    amount_cents: int | None
    """By how much they say more than we do; negative where they say less."""
    said: str
    since: datetime


class Case(Difference, frozen=True, kw_only=True):
    id: int
    opened_at: datetime
    opened_count: int
    """How often it was opened: what comes back opens its case again."""
    ended_at: datetime | None
    ended_as: CaseEnd | None
    ended_by: str | None
    end_reason: str | None


class CaseNote(Struct, frozen=True, kw_only=True):
    """Who looked at a case, and what they found."""

    case_id: int
    operator: str
    noted_at: datetime
    note: str


class OpenCases(Struct, frozen=True, kw_only=True):
    """How many of a kind are open, and since when the oldest is."""

    kind: CaseKind
    count: int
    oldest_at: datetime
