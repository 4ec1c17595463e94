"""What is remembered of each order that is asked for at an institution, so that no call is made twice unknowingly.

::

    new ──its name there is known──► minted ──► calling ──it may be done──► asked ──► closed
                                       │  ▲        │  ▲                       │
                                       │  └─turned─┘  └──a repeat that does───┘
                                       │    away         nothing more
                                       └──no call will be made──► closed

Each step is taken by whoever finds the row as it was, under the fence of the account's slot: who did not take it makes no call.
A call that was turned away before anything was done (``NotSent``) is none, unless an earlier one of the same row may be done.
A row that is found *calling* was cut off by the end of its process, and may be done.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

from pixconnect.domain.money.refund import Refund

Kind = Literal["refund", "order"]
State = Literal["new", "minted", "calling", "asked", "closed"]
Outcome = Literal["answered", "refused", "never"]
_NAME_LENGTH: Final = 32
"""The central bank's API takes up to 35 letters and digits."""


class RailStep(Struct, frozen=True, kw_only=True):
    order_name: str
    """Our ``return_id`` or ``end_to_end_id``."""
    institution_id: int
    kind: Kind
    holder_id: int
    original_end_to_end_id: str | None
    """The received Pix, of a refund."""
    amount_cents: int
    name_there: str | None
    """What the institution knows it by; it never changes."""
    state: State
    may_be_done: bool = False
    """Whether a call of it may have taken effect."""
    called_at: datetime | None = None
    """When it was first called, in real time."""
    outcome: Outcome | None = None
    """*Answered*: the institution has it, and tells how it ended; *never*: no call was made, and none will be."""
    refusal_code: str | None = None
    refusal_reason: str | None = None
    created_at: datetime


class MemoryUnavailable(Exception):  # noqa: N818  it is not our error
    """A row cannot be read or changed now; whoever was about to call does not."""


class RailMemory(Protocol):
    """The rows of one account. Everything raises ``MemoryUnavailable``."""

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        """The rows of refunds of ours, by our name, each made if there is none; what is no open refund there is left out."""
        ...

    async def take(self, before: RailStep, after: RailStep) -> bool:
        """Change a row durably; ``False`` if it is not as it was, so that somebody else has it."""
        ...


def name_there(naming_key: bytes, institution_id: int, kind: Kind, holder_id: int, external_id: str) -> str:
    """What the institution shall know an order by: the same again for the same request, whatever was forgotten here.

    Names that were given stand at institutions, so this never changes.

    Example:
        >>> name_there(b"key", 1, "refund", 2, "order-77")
        'c1c3a889216bbd6a02c98b5ddad4e0d3'
    """
    text = f"{institution_id}|{kind}|{holder_id}|{external_id}"
    return hmac.new(naming_key, text.encode(), hashlib.sha256).hexdigest()[:_NAME_LENGTH]


def name_refund_there(naming_key: bytes, institution_id: int, refund: Refund) -> str:
    """What the institution knows a refund of ours by."""
    external_id = refund.external_id or refund.return_id
    return name_there(naming_key, institution_id, "refund", refund.holder_id, external_id)
