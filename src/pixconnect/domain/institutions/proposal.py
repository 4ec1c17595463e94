"""What one operator wants done with an account, and another must confirm: one person alone neither closes nor allows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.frame import errors

ProposedAct = Literal["close", "allow"]


class Proposal(Struct, frozen=True, kw_only=True):
    """Waits until ``confirmed_at``; a later one of the same kind takes its place until then."""

    institution_id: int
    act: ProposedAct
    proposal: Mapping[str, str | int]
    """What belongs to the act."""
    proposed_by: str
    proposed_at: datetime
    confirmable_at: datetime


def check_confirmation(proposal: Proposal, operator: str, now: datetime) -> None:
    """Refuse the operator who has proposed it, and whoever comes too early."""
    if operator == proposal.proposed_by:
        raise errors.Forbidden(f"confirm: {operator} has proposed it: another operator confirms")
    if now < proposal.confirmable_at:
        raise errors.BadRequest(f"confirm: may be confirmed from {proposal.confirmable_at.isoformat()} on")
