"""Reports by an institution about money that a holder cannot spend; they cannot be refused."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from pixconnect.kernel.rules.holder import Party

ReportedKind = Literal["med", "precautionary", "judicial", "administrative", "security"]
"""Why an institution blocks money: ``med`` is a contest of a Pix, ``precautionary`` a suspect credit."""
BlockKind = Literal["med", "precautionary", "judicial", "administrative", "security", "statement_line"]
"""Also for a pending debit of the statement, which has no report."""


class BlockTraits(Struct, frozen=True, kw_only=True):
    """Properties of all blocks of a kind."""

    # It concerns a Pix that must be found here first: otherwise the report would block money without a cause.
    is_of_pix: bool = False
    is_secret: bool = False  # the institution's name and the end of such a block are hidden


BLOCK_KINDS: Final[Mapping[BlockKind, BlockTraits]] = {
    "med": BlockTraits(is_of_pix=True),
    "precautionary": BlockTraits(is_of_pix=True),
    "judicial": BlockTraits(is_secret=True),
    "administrative": BlockTraits(),
    "security": BlockTraits(),
    "statement_line": BlockTraits(),
}


class BlockTerms(Struct, frozen=True, kw_only=True):
    """All terms of one block; the last report counts."""

    reference: str  # the institution's name of the block, unique on the account
    kind: ReportedKind
    wanted_cents: int  # the amount that the institution wants to block; 0 ends the block
    held_cents: int
    respond_by: datetime | None = None
    until: datetime | None = None


class BlockReport(Struct, frozen=True, kw_only=True, tag="block"):
    """Blocks that an institution opened, changed or ended on a holder's account: a fact that we cannot refuse."""

    report_id: str
    party: Party
    blocks: tuple[BlockTerms, ...]
    """The reported blocks in their present state: one may have split in two, and many may have ended."""
    reported_at: datetime
    """When it was reported. Of two reports the later one counts, in any order."""


InfractionReason = Literal["fraud", "operational_flaw"]
"""The reason of the payer's institution: the payer was deceived, or a fault caused the Pix."""
Situation = Literal["scam", "account_takeover", "coercion", "fraudulent_access", "other"]
"""The situation, in the terms of the key directory (DICT)."""
InfractionState = Literal["open", "answered", "taken", "released"]
"""``answered``: the institution has the holder's defence.

It ends as ``taken`` (returned as far as money was left) or ``released``.
"""


class TakenPart(Struct, frozen=True, kw_only=True):
    """The institution's return of a contested Pix."""

    return_id: str  # the network's name of the return
    amount_cents: int
    settled_at: datetime


class InfractionReport(Struct, frozen=True, kw_only=True, tag="infraction"):
    """The contest of a received Pix by its payer, in its whole present state; the last report counts.

    The institution blocks, decides and returns; we cannot refuse it.
    """

    report_id: str
    name: str  # the institution's name of the contest, unique on the account
    party: Party
    end_to_end_id: str
    amount_cents: int  # how much of it is contested
    reason: InfractionReason
    situation: Situation
    words: str | None  # the payer's statement
    state: InfractionState
    opened_at: datetime
    respond_by: datetime
    # The amount that the institution wants to block: after a return of less than was contested, the rest.
    wanted_cents: int
    held_cents: int
    taken: tuple[TakenPart, ...]
    reported_at: datetime
    until: datetime | None = None


class Defence(Struct, frozen=True, kw_only=True):
    """A holder's answer to a contest."""

    name: str  # the institution's name of the contest
    text: str


class DefenceTaken(Struct, frozen=True, tag="taken"):
    """The institution has this defence, now or since an earlier try."""


class DefenceRefused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The institution rejects it: the deadline has passed, or the contest has ended. Final."""

    reason: str


class DefenceUnknown(Struct, frozen=True, tag="unknown"):
    """It is unknown whether the institution has it. It is sent again; repetitions are idempotent."""


DefenceAnswer = DefenceTaken | DefenceRefused | DefenceUnknown
