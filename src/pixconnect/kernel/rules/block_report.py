"""Reports by an institution about money that a holder cannot spend; they cannot be refused."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from pixconnect.kernel.rules import money
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.kept_report import ITEM_ID_LENGTH_MAX, NAME_LENGTH, find_fault_of_amount, is_name
from pixconnect.kernel.rules.rail import Report

ReportedKind = Literal["med", "precautionary", "judicial", "administrative", "security"]
"""Why an institution blocks money: ``med`` is a contest of a Pix, ``precautionary`` a suspect credit."""
BlockKind = Literal["med", "precautionary", "judicial", "administrative", "security", "statement_line"]
"""Also for a pending debit of the statement, which has no report."""

BLOCKS_MAX: Final = 200  # in one report
WORDS_LENGTH_MAX: Final = 2000


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

    def find_fault(self) -> str | None:
        """Return why a block is impossible as reported."""
        if not 0 < len(self.reference) <= ITEM_ID_LENGTH_MAX:
            return f"reference: must have 1 to {ITEM_ID_LENGTH_MAX} characters"
        if any(instant is not None and instant.tzinfo is None for instant in (self.respond_by, self.until)):
            return "respond_by, until: must have a time zone"
        if not 0 <= self.held_cents <= self.wanted_cents <= money.AMOUNT_MAX_CENTS:
            return f"held_cents: must be from 0 to wanted_cents, and that at most {money.AMOUNT_MAX_CENTS}"
        return None


class BlockReport(Report, frozen=True, kw_only=True, tag="block"):
    """Blocks that an institution opened, changed or ended on a holder's account: a fact that we cannot refuse."""

    party: Party
    blocks: tuple[BlockTerms, ...]
    """The reported blocks in their present state: one may have split in two, and many may have ended."""
    reported_at: datetime
    """When it was reported. Of two reports the later one counts, in any order."""

    @property
    def subject(self) -> str:
        return self.blocks[0].reference if self.blocks else self.report_id

    def find_fault(self) -> str | None:
        if self.reported_at.tzinfo is None:
            return "reported_at: must have a time zone"
        if not 0 < len(self.blocks) <= BLOCKS_MAX:
            return f"blocks: must be 1 to {BLOCKS_MAX}"
        if len({terms.reference for terms in self.blocks}) < len(self.blocks):
            return "blocks: one of them is listed twice"
        return next((fault for terms in self.blocks if (fault := terms.find_fault()) is not None), None)


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


class InfractionReport(Report, frozen=True, kw_only=True, tag="infraction"):
    """The contest of a received Pix by its payer, in its whole present state; the last report counts.

    The institution blocks, decides and returns; we cannot refuse it.
    """

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

    @property
    def subject(self) -> str:
        return self.name

    def find_fault(self) -> str | None:
        if not 0 < len(self.name) <= ITEM_ID_LENGTH_MAX:
            return f"name: must have 1 to {ITEM_ID_LENGTH_MAX} characters"
        if not is_name(self.end_to_end_id):
            return f"end_to_end_id: must have {NAME_LENGTH} characters and begin with E"
        if self.words is not None and not 0 < len(self.words) <= WORDS_LENGTH_MAX:
            return f"words: must have 1 to {WORDS_LENGTH_MAX} characters"
        instants = (self.opened_at, self.respond_by, self.reported_at, *(part.settled_at for part in self.taken))
        if any(instant.tzinfo is None for instant in instants):
            return "opened_at, respond_by, reported_at, settled_at: must have a time zone"
        if self.state in {"open", "answered"} and self.wanted_cents == 0:
            return "wanted_cents: must not be zero for an undecided contest"
        for part in self.taken:
            if not is_name(part.return_id) or part.return_id[0] != "D":
                return f"return_id: must have {NAME_LENGTH} characters and begin with D"
            if find_fault_of_amount(part.amount_cents) is not None:
                return find_fault_of_amount(part.amount_cents)
        terms = BlockTerms(
            reference=self.name, kind="med", wanted_cents=self.wanted_cents, held_cents=self.held_cents, until=self.until
        )
        return terms.find_fault() or find_fault_of_amount(self.amount_cents)


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
