"""Proposals: one operator proposes an act, another reads it and confirms it by its code.

::

    proposed ──► done        by another operator, or by itself after its waiting time
         ├─────► replaced    by a later one of its kind for the same account or holder
         └─────► lapsed      after 30 days

Each kind is a row of ``KINDS`` (``features/cases/service/adjustment.py``), with its check and its act at the confirmation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules.confirmation import check_second_operator
from pixconnect.platform.base import errors

LAPSES_AFTER: Final = timedelta(days=30)
_CODE_LENGTH: Final = 8


class Proposal(Struct, frozen=True, kw_only=True):
    """An account or a holder has at most one pending proposal of each act."""

    act: str
    institution_id: int | None = None
    """The account that it is about; otherwise it is about a holder."""
    holder_id: int | None = None
    contents: Mapping[str, str | int]
    """The act's own fields."""
    proposed_by: str
    proposed_at: datetime
    confirmable_at: datetime
    acts_at: datetime | None = None
    """When it takes effect without a second operator; ``None`` is never."""

    @property
    def code(self) -> str:
        """A short code of its contents.

        The confirming operator states what they read, since a later proposal may have replaced it.
        """
        subject = (self.act, self.institution_id, self.holder_id)
        read = (*subject, sorted(self.contents.items()), self.proposed_by, self.proposed_at.timestamp())
        return hashlib.sha256(msgspec.json.encode(read)).hexdigest()[:_CODE_LENGTH]

    @property
    def contents_text(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in sorted(self.contents.items()))

    @property
    def text(self) -> str:
        """All of it in one line, for the confirming operator."""
        return f"{self.act} ({self.contents_text}), proposed by {self.proposed_by}, code {self.code}"

    @property
    def lapses_at(self) -> datetime:
        return self.proposed_at + LAPSES_AFTER


def check_confirmation(proposal: Proposal, operator: str, now: datetime) -> None:
    """Refuse the operator who proposed it, and a confirmation that is too early or too late."""
    check_second_operator("confirm", operator, proposal.proposed_by)
    if now < proposal.confirmable_at:
        raise errors.BadRequest(f"confirm: may be confirmed from {proposal.confirmable_at.isoformat()} on")
    if now >= proposal.lapses_at:
        raise errors.BadRequest(f"confirm: lapsed on {proposal.lapses_at.isoformat()}: propose it again")
