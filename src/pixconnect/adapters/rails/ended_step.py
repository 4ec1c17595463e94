"""What is remembered of an order at an institution when it has ended there, or may have."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.adapters.rails.listed_order import ListedOrder
from pixconnect.domain.institutions.rail_memory import Outcome, RailStep
from pixconnect.domain.money import reject_code
from pixconnect.domain.money.holder import UNKNOWN_PARTY
from pixconnect.domain.money.rail import Rejected, Settled

NO_REASON: Final = "The institution gave no reason."
_REASON_MAX: Final = 1000


def doubt_step(calling: RailStep, reason: str) -> RailStep:
    """A call that was refused, which the institution has not confirmed yet by having nothing of it."""
    return structs.replace(calling, state="asked", may_be_done=True, refusal_reason=reason[:_REASON_MAX])


def end_step(step: RailStep, outcome: Outcome, code: str | None = None, reason: str | None = None) -> RailStep:
    text = None if reason is None else reason[:_REASON_MAX]
    return structs.replace(step, state="closed", outcome=outcome, refusal_code=code, refusal_reason=text)


def settle_by(step: RailStep, heard: ListedOrder, now: datetime) -> Settled:
    """What a settled one says, with who was paid: as the institution tells it, or as its first step has told it."""
    owner = dict(name=step.owner_name, tax_id=step.owner_tax_id)
    named = {member: text for member, text in owner.items() if text}
    paid = heard.paid or (structs.replace(UNKNOWN_PARTY, **named) if named else None)
    # Some tell no instant of it: then it is the one at which we heard.
    return Settled(settled_at=heard.settled_at or now, network_id=heard.network_id, payee=paid)


def reject_by(step: RailStep) -> Rejected:
    """What a refused one says to callers."""
    return Rejected(code=step.refusal_code or reject_code.NETWORK_FAILED, reason=step.refusal_reason or NO_REASON)
