"""A change of a charge that is open at an institution.

::

    asked ──it is so there──► done         (only now the charge changes here)
      │  ▲────unknown: query again
      ├──certainly refused──► refused
      ├──nothing was sent───► given_up
      └──it is paid there───► overtaken    (the payment wins)

A charge has one such change at a time.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from pixconnect.features.institutions.rules.institution import (
    CertainRefusal,
    ChargeTerms,
    InstitutionTraits,
    OpenedCharge,
)
from pixconnect.features.institutions.rules.pending_call import PendingCall
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Removal
from pixconnect.kernel.rules.charge_contents import ChargeContents

ChangeKind = Literal["revise", "remove", "withdraw"]
"""``withdraw`` removes a possibly opened charge that was answered with a static code."""
ChangeState = Literal["asked", "done", "refused", "given_up", "overtaken"]


class ChargeChange(PendingCall, frozen=True, kw_only=True):
    id: int
    kind: ChangeKind
    contents: ChargeContents | None = None
    """The wanted contents of a revised charge."""
    removal: Removal | None = None
    """The wanted status of a removed charge."""
    state: ChangeState = "asked"
    reason: str | None = None
    """In the institution's words: the refusal, or its last answer."""
    revision_there: int | None = None
    """The institution's revision of the charge before it was asked."""

    def wants_the_same(self, other: ChargeChange) -> bool:
        return (self.kind, self.contents, self.removal) == (other.kind, other.contents, other.removal)


def is_done_at_institution(change: ChargeChange, there: OpenedCharge) -> bool:
    """Whether the charge is as wanted there; a revision counts only if it is later than the one at the time of the request."""
    if change.contents is None:
        return there.status in ("removed_by_us", "removed_by_institution")
    # Without the earlier revision, our change could not be distinguished from the charge's former contents.
    if there.status != "active" or change.revision_there is None or there.revision <= change.revision_there:
        return False
    return (
        there.is_as_asked(write_terms(change.txid, change.contents)) and there.lifetime_s == change.contents.lifetime_s
    )


def write_terms(txid: str, contents: ChargeContents) -> ChargeTerms:
    """The terms that the charge is to have at the institution."""
    payer = contents.payer
    return ChargeTerms(
        txid=txid,
        key=contents.key,
        amount_cents=contents.amount_cents,
        lifetime_s=contents.lifetime_s,
        due=contents.due,
        payer_address=contents.address,
        payer_name=None if payer is None else payer.name,
        payer_tax_id=None if payer is None else payer.tax_id,
        text_for_payer=contents.question,
        additional=[(line.name, line.value) for line in contents.lines],
    )


def find_known_refusal(traits: InstitutionTraits, contents: ChargeContents) -> CertainRefusal | None:
    """Why an institution takes no such charge, which is known before it is asked; ``None`` if it does."""
    if contents.due is not None:
        if traits.opens_due:
            return None
        reason = "the institution opens no charge with a due date by these terms"
        return CertainRefusal(code="due", reason=reason, member="calendario.dataDeVencimento")
    if traits.lifetime_min_s <= contents.lifetime_s <= traits.lifetime_max_s:
        return None
    reason = f"the institution takes charges that run from {traits.lifetime_min_s} to {traits.lifetime_max_s} s"
    return CertainRefusal(code="lifetime", reason=reason, member="calendario.expiracao")


def strip_rights(caller: Caller) -> Caller:
    """The caller's identity alone, without its rights."""
    return msgspec.structs.replace(caller, scopes=frozenset[str](), certificate=None)


encode_caller = msgspec.json.Encoder().encode
decode_caller = msgspec.json.Decoder(Caller).decode
