"""A case: a difference between the facts of an institution or the rail and ours.

::

    found ──► open ──► recorded            the missing fact came under its own id
               ▲  ├──► adjusted            two operators adjusted a fact without an id
               │  ├──► decided             two operators decided, by evidence, how an order ended
               │  └──► closed              by an operator
               └── it came back, or came back with another amount

The check that finds the difference opens the case, and checks again: a case without a difference ends by itself. An operator's
closing applies to its present amount; a case moves no money.

An order is queried for ever. But an institution never answers about an order that it lost, or never lists. Once no call of the
order can be made or take effect any more, and the statement of its days is complete, operators may decide how it ended.

A case without a recorded fact gets adjusting entries, after two operators agreed:

::

    IN:   difference ──► available
    OUT:  available ──► difference
          deficit ──► difference         beyond the available part

    written off by the house, at the end:  difference ──► settlement, or back

An entry is dated when it is made, stays within its case's amount and sign, and is undone only by its opposite. ``verify``
reports the account ``difference`` until it is zero again.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct

from pixconnect.kernel.register import find_name_window
from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules.event import SLOTS_COUNT, Amount, Event, EventFamily, Instant
from pixconnect.kernel.rules.identifiers import minute_of_name
from pixconnect.kernel.rules.ledger import Account, Balance
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant, to_day

CaseKind = Literal["report", "day", "rail", "order", "account", "waits", "file"]
"""The kinds of cases.

A report of the rail that waits for an operator; a day on which an account's statement and the books disagree; a finding of
``verify`` against the rail; an order whose institution cannot report its end; an account whose balance differs from the books;
a pending refund that may not be sent; a file of an institution's statements that an operator has to read: the first one, which
waits to be confirmed, or one of days without a file in which money moved.
"""
CaseEnd = Literal["recorded", "adjusted", "closed", "decided"]

TEXT_LENGTH_MAX: Final = 1000


class Difference(Struct, frozen=True, kw_only=True):
    kind: CaseKind
    institution_id: int | None
    name: str  # one difference has one name, however often it is found
    holder_id: int | None = None
    amount_cents: int | None  # their amount less ours; negative if theirs is smaller
    facts: str
    since: datetime


class Case(Difference, frozen=True, kw_only=True):
    id: int
    opened_at: datetime
    opened_count: int  # how often it was opened: a recurring difference reopens its case
    ended_at: datetime | None
    ended_as: CaseEnd | None
    ended_by: str | None
    end_reason: str | None


class CaseNote(Struct, frozen=True, kw_only=True):
    case_id: int
    operator: str
    noted_at: datetime
    note: str


class Rehearsal(Struct, frozen=True, kw_only=True):
    """Lines of an account that look alike, and that two operators have set aside; perhaps the pattern is remembered."""

    reason: str  # why the lines wait
    direction: Literal["IN", "OUT"]
    form: str  # their text, with # for each number
    began_at: datetime
    last_at: datetime
    days_count: int  # on how many days lines were set aside
    item_id: str  # the last line
    pattern_id: int | None  # ``None`` while operators are still asked
    since: datetime | None
    answered_count: int  # how many lines the pattern has set aside


EndingClaim = Literal["settled", "never"]  # the Pix reached its payee; or it never left, and never will
EVIDENCE_SIZE_MAX: Final = 1024 * 1024  # octets
EVIDENCE_NAME_LENGTH_MAX: Final = 255
_A_CALL: Final = timedelta(hours=1)  # maximum duration of a call
_SATURDAY: Final = 5


class Evidence(Struct, frozen=True, kw_only=True):
    """A file on which operators rely, such as the institution's letter: they keep it, and it is identified here."""

    name: str
    size: int  # in octets
    digest: str  # its SHA-256, in hexadecimal digits

    def check(self) -> None:
        """Raise ``BadRequest`` unless it identifies a file that can be compared."""
        if not 0 < len(self.name) <= EVIDENCE_NAME_LENGTH_MAX or not self.name.isprintable():
            raise errors.BadRequest(f"evidence: its name must have 1 to {EVIDENCE_NAME_LENGTH_MAX} characters of text")
        if not 0 < self.size <= EVIDENCE_SIZE_MAX:
            raise errors.BadRequest(f"evidence: must have 1 to {EVIDENCE_SIZE_MAX} octets")
        if len(self.digest) != 64 or set(self.digest) - set("0123456789abcdef"):
            raise errors.BadRequest("evidence: its SHA-256 must be 64 hexadecimal digits, in small letters")


class SilentOrder(Struct, frozen=True, kw_only=True):
    """An order that was called at an institution, and whose end the rail has not reported."""

    order_name: str
    kind: Literal["order", "refund"]
    institution_id: int
    holder_id: int
    resource_id: int
    amount_cents: int
    called_at: datetime  # the first call, in real time

    @property
    def line_kind(self) -> Literal["transfer", "refund"]:
        return "transfer" if self.kind == "order" else "refund"

    @property
    def over_at(self) -> datetime:
        """Return from when on no call of it is made, or in progress."""
        named_at = minute_of_name(self.order_name) or self.called_at
        # Also the maximum time after the first call for a repetition.
        return max(named_at, self.called_at) + find_name_window(named_at) + _A_CALL

    @property
    def days(self) -> tuple[date, date]:
        """Return the first and the last day of lines that may be its own; a weekend's lines are booked after it."""
        last = to_day(self.over_at)
        while last.weekday() >= _SATURDAY:
            last += timedelta(days=1)
        return to_day(self.called_at), last


class CaseEnding(SilentOrder, frozen=True, kw_only=True):
    """The decision of two operators on an order."""

    case_id: int
    claim: EndingClaim
    evidence_name: str
    evidence_size: int
    evidence_digest: str
    proposed_by: str
    confirmed_by: str
    ended_at: datetime  # in real time
    contrary_item_id: str | None = None  # the later statement line that contradicts it


def parse_ending_claim(text: str) -> EndingClaim:
    try:
        return msgspec.convert(text, EndingClaim)
    except msgspec.ValidationError:
        raise errors.BadRequest(f"claim: must be one of {', '.join(get_args(EndingClaim))}") from None


AdjustmentKind = Literal["bank_error", "our_error", "found", "written_off"]
KINDS: Final[tuple[AdjustmentKind, ...]] = get_args(AdjustmentKind)
Side = Literal["IN", "OUT"]
SettledWith = Literal["available", "settlement"]


class Adjustment(Struct, frozen=True, kw_only=True):
    id: int  # that of its first entry
    holder_id: int
    case_id: int
    kind: AdjustmentKind
    direction: Side
    account: SettledWith  # the other side of the difference: a write-off ends in the house's settlement
    amount_cents: int
    deficit_cents: int  # the part of it that was not available
    entry_id: int | None
    deficit_entry_id: int | None
    opposite_of: int | None  # the adjustment that it undoes
    proposed_by: str
    confirmed_by: str
    created_at: datetime

    @property
    def slot(self) -> int:
        return self.id % SLOTS_COUNT

    @property
    def signed_cents(self) -> int:
        return self.amount_cents if self.direction == "IN" else -self.amount_cents


def turn(direction: Side) -> Side:
    return "OUT" if direction == "IN" else "IN"


def accounts_of(direction: Side, account: SettledWith) -> tuple[Account, Account]:
    """The debited and the credited account."""
    if account == "available":
        return ("difference", "available") if direction == "IN" else ("available", "difference")
    return ("settlement", "difference") if direction == "IN" else ("difference", "settlement")


def find_lacking(balance: Balance, direction: Side, amount_cents: int) -> int:
    """Find the part of an outgoing amount that exceeds the available balance and becomes a debt."""
    return max(0, amount_cents - balance.available_cents) if direction == "OUT" else 0


def parse_kind(text: str) -> AdjustmentKind:
    try:
        return msgspec.convert(text, AdjustmentKind)
    except msgspec.ValidationError:
        raise errors.BadRequest(f"kind: must be one of {', '.join(KINDS)}") from None


def check_bound(case_cents: int, adjusted_cents: int, amount_cents: int, direction: Side) -> None:
    """Refuse an adjustment beyond a case's amount or sign; ``case_cents`` is the institution's amount less the books'."""
    # By the resulting sum, so that entries of both directions count together.
    after_cents = adjusted_cents + (amount_cents if direction == "IN" else -amount_cents)
    if amount_cents < 1 or not min(case_cents, 0) <= after_cents <= max(case_cents, 0):
        left_cents = abs(case_cents - adjusted_cents)
        raise errors.BadRequest(f"amount: must be from 1 to the {left_cents} cents of the case that are not adjusted")


class AdjustmentPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``adjustment.*`` events."""

    id: int
    """The adjustment's id: that of its line in your statement, where it has one."""
    kind: str
    """The source of the error, `bank_error` or `our_error`; `found`; or `written_off`, by which the house takes it over."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    amount: Amount
    """By how much."""
    deficit: Amount
    """The part that exceeded your balance: you owe it, and incoming money repays it first."""
    opposite_of: int | None = None
    """The id of the adjustment that it undoes."""
    status: Literal["POSTED"]
    """Only movements that moved money are announced."""
    create_timestamp: Instant
    """When it was posted: it is never dated back."""


FAMILIES: Final = (
    EventFamily(
        prefix="adjustment.",
        schema="AdjustmentEvent",
        payload=AdjustmentPayload,
        resource=None,
        example=lambda _: dict(kind="bank_error", impact_type="OUT", deficit=0, opposite_of=msgspec.UNSET),
    ),
)


def announce_adjustment(adjustment: Adjustment, event_id: int) -> Event:
    payload = AdjustmentPayload(
        id=adjustment.id,
        kind=adjustment.kind,
        impact_type=adjustment.direction,
        amount=adjustment.amount_cents,
        deficit=adjustment.deficit_cents,
        opposite_of=adjustment.opposite_of,
        status="POSTED",
        create_timestamp=format_instant(adjustment.created_at),
    )
    return events.make_event(event_id, "adjustment.posted", payload, "adjustment", adjustment, adjustment.created_at)
