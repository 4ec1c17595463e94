"""Reports by an institution about money that a holder cannot spend; they cannot be refused."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from pixconnect.kernel.rules.holder import Party

ReportedKind = Literal["med", "precautionary", "judicial", "administrative", "security"]
"""Why an institution blocks money: ``med`` is a contest of a Pix, ``precautionary`` a suspect credit."""
BlockKind = Literal["med", "precautionary", "judicial", "administrative", "security", "statement_line"]
"""Also for a waiting debit of the statement, which has no report."""


class BlockTraits(Struct, frozen=True, kw_only=True):
    """Properties of all blocks of a kind."""

    is_of_pix: bool = False
    """It is about a Pix, which has to be found here first: a report of it alone would keep money for nothing."""
    is_secret: bool = False
    """The institution's name and the end of such a block are not shown."""


BLOCK_KINDS: Final = dict[BlockKind, BlockTraits](
    (
        ("med", BlockTraits(is_of_pix=True)),
        ("precautionary", BlockTraits(is_of_pix=True)),
        ("judicial", BlockTraits(is_secret=True)),
        ("administrative", BlockTraits()),
        ("security", BlockTraits()),
        ("statement_line", BlockTraits()),
    )
)


class BlockTerms(Struct, frozen=True, kw_only=True):
    """All terms of one block, so that the last report counts."""

    reference: str
    """Its name of it, unique on the account."""
    kind: ReportedKind
    wanted_cents: int
    """How much it would have; 0 ends the block."""
    held_cents: int
    """How much of that it has blocked."""
    respond_by: datetime | None = None
    until: datetime | None = None
    """When it ends by itself."""


class BlockReport(Struct, frozen=True, kw_only=True, tag="block"):
    """The institution has blocked money on a holder's account, or changed or ended blocks: a fact that we cannot refuse."""

    report_id: str
    party: Party
    """The holder's account."""
    blocks: tuple[BlockTerms, ...]
    """The reported blocks in their present state: one may have become two, and many may have ended."""
    told_at: datetime
    """Of two reports the later one counts, in any order."""


InfractionReason = Literal["fraud", "operational_flaw"]
"""The payer's institution's reason: the payer was deceived, or the Pix went wrong by a fault."""
Situation = Literal["scam", "account_takeover", "coercion", "fraudulent_access", "other"]
"""The situation, in the words of the key directory (DICT)."""
InfractionState = Literal["open", "answered", "taken", "released"]
"""``answered``: the institution has the holder's words. It ends as ``taken`` (given back, as far as there was money) or
``released``."""


class TakenPart(Struct, frozen=True, kw_only=True):
    """The institution's return of a contested Pix."""

    return_id: str
    """The network's name of the return."""
    amount_cents: int
    settled_at: datetime


class InfractionReport(Struct, frozen=True, kw_only=True, tag="infraction"):
    """The payer of a received Pix contests it: the whole present state, so that the last report counts.

    The institution blocks, decides and returns; we cannot refuse it.
    """

    report_id: str
    name: str
    """The institution's name of it, unique on the account."""
    party: Party
    """The holder's account."""
    end_to_end_id: str
    """The Pix."""
    amount_cents: int
    """How much of it is contested."""
    reason: InfractionReason
    situation: Situation
    words: str | None
    """The payer's words."""
    state: InfractionState
    opened_at: datetime
    respond_by: datetime
    """Until when the holder can answer."""
    wanted_cents: int
    """How much the institution would have blocked: after a return of less than was contested, the rest."""
    held_cents: int
    """How much of that it has blocked."""
    taken: tuple[TakenPart, ...]
    """All that it has given back because of it."""
    told_at: datetime
    until: datetime | None = None
    """When the block ends by itself."""


class Defence(Struct, frozen=True, kw_only=True):
    """A holder's answer to a contest."""

    name: str
    """The contest's, as the institution calls it."""
    text: str


class DefenceTaken(Struct, frozen=True, tag="taken"):
    """The institution has these words, now or since an earlier try."""


class DefenceRefused(Struct, frozen=True, kw_only=True, tag="refused"):
    """It will not have them: the time is over, or the contest is. Final."""

    reason: str


class DefenceUnknown(Struct, frozen=True, tag="unknown"):
    """It is unknown whether it has them: it is asked again, and accepts the same words once."""


DefenceAnswer = DefenceTaken | DefenceRefused | DefenceUnknown
