"""An operator's proposed action on an account, which another must confirm: one person alone neither closes nor allows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.confirmation import check_second_operator

ProposedAct = Literal["close", "allow", "adjust", "decide", "release", "answer"]
_CODE_LENGTH: Final = 8


class Proposal(Struct, frozen=True, kw_only=True):
    """Waits until ``confirmed_at``; a later one of the same kind takes its place until then."""

    institution_id: int
    act: ProposedAct
    proposal: Mapping[str, str | int]
    """The parameters of the act."""
    proposed_by: str
    proposed_at: datetime
    confirmable_at: datetime


def say_proposal(proposal: Proposal) -> str:
    """All of it in one line: who confirms must see what, for a later one may have taken the place of the one they know."""
    said = ", ".join(f"{name} {value}" for name, value in sorted(proposal.proposal.items()))
    return f"{proposal.act} ({said}), proposed by {proposal.proposed_by}, code {name_proposal(proposal)}"


def name_proposal(proposal: Proposal) -> str:
    """A short code of the whole proposal, which the confirming operator repeats."""
    read = (proposal.act, sorted(proposal.proposal.items()), proposal.proposed_by, proposal.proposed_at.timestamp())
    return hashlib.sha256(msgspec.json.encode(read)).hexdigest()[:_CODE_LENGTH]


def check_reading(proposal: Proposal, code: str | None) -> None:
    """Refuse the confirmation of anything else than the proposal that the operator read.

    A replaced proposal that permits more, or closes, waits for an hour again; any other may be confirmed at once, so its code
    is required.
    """
    if code is None and proposal.act not in ("allow", "close"):
        raise errors.BadRequest(f"code: say which you have read; what waits is {say_proposal(proposal)}")
    if code is not None and code != name_proposal(proposal):
        raise errors.BadRequest(f"code: what waits is another: {say_proposal(proposal)}")


def check_confirmation(proposal: Proposal, operator: str, now: datetime) -> None:
    """Refuse the proposing operator, and confirmations that come too early."""
    check_second_operator("confirm", operator, proposal.proposed_by)
    if now < proposal.confirmable_at:
        raise errors.BadRequest(f"confirm: may be confirmed from {proposal.confirmable_at.isoformat()} on")
