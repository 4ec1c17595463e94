"""The record of each order's calls to an institution, so that no call is made twice by mistake.

::

    new ──it has a name there──────► minted ──► calling ──it may be done──► asked ──► closed
                                       │  ▲        │  ▲                       │
                                       │  └─turned─┘  └──a repeat that does───┘
                                       │    away         nothing more
                                       └──no call will be made──► closed

The worker that finds the row unchanged takes each step, under the fence of the account's slot; if the step fails, it makes no
call. Where our name is enough, a row is *minted* from the beginning; where a first step of sending names it, it is *new* until
then. A call that was turned away before anything was done (``NotSent``) does not count, unless an earlier one of the same row
may have been executed. A row found *calling* was cut off by the end of its process, and may have been executed. So may each row
that was open when the database lost data: it counts as *calling*, is queried, and is never called again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from msgspec import Struct

from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import WaitsFor

Kind = Literal["refund", "order"]
State = Literal["new", "minted", "calling", "asked", "closed"]
Outcome = Literal["answered", "refused", "never", "decided"]
SentStatus = Literal["under_way", "settled", "refused"]
_NAME_LENGTH: Final = 32  # the central bank's API takes up to 35 letters and digits


class OutgoingPix(Struct, frozen=True, kw_only=True):
    """An order in the institution's terms."""

    name: str  # its name in queries; the same order always has the same
    amount_cents: int
    payer_key: str | None  # the account's key, if it has one
    payee: Party  # the account; or, if ``is_by_key``, a key, of whose owner at most the CPF or CNPJ is known
    is_by_key: bool  # or by a code, which leads to a key too
    br_code: str | None = None  # the text of the code that is paid
    txid: str | None = None  # the txid of the code's charge, if it has one
    payer_message: str | None = None
    code: str | None = None  # the institution's own code, if a first step returned it
    not_after_s: float | None = None
    """The monotonic time by which a repeated call, or the payment of a code, must have left."""


class SentPix(Struct, frozen=True, kw_only=True):
    name: str  # the requester's name for it
    code: str | None = None  # the institution's own code, if queries use it in place of our name
    end_to_end_id: str | None  # the network's, once reported
    amount_cents: int | None  # ``None`` for one that no longer exists
    status: SentStatus
    settled_at: datetime | None
    payee: str | None = None  # as ``name_payee``, if reported in full
    paid: Party | None = None  # the reported payee: masked members as received, the others unknown
    reason: str | None = None  # why it was refused, in the institution's words
    waits_for: WaitsFor | None = None  # set for a pending one that waits for a person at the institution
    reject_code: str | None = None  # the equivalent reason of the scheme, if the institution reports it
    returns: Sequence[SentReturn] = ()  # returns by its payee, if the institution reports them


def name_payee(payee: Party, *, is_by_key: bool) -> str:
    """Return an order's payee in one text: the key, or the account.

    Example:
        >>> from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
        >>> name_payee(UNKNOWN_PARTY, is_by_key=False)
        '99999999/0/0'
    """
    return payee.key or "" if is_by_key else f"{payee.ispb}/{payee.branch}/{payee.account_number}"


def is_same_payee(reported: str | None, asked: str | None) -> bool:
    """Whether the institution pays the requested payee, as far as reported; some pad account numbers with zeros.

    Example:
        >>> is_same_payee("54811417/0001/00000000000000000981", "54811417/1/981")
        True
        >>> is_same_payee("joana@pix.example", "other@pix.example")
        False
    """
    return reported is None or reported == asked or _trim_account(reported) == _trim_account(asked or "")


def _trim_account(named: str) -> tuple[str, ...]:
    parts = named.split("/")
    # A key has no such form, and is compared as it is.
    return (parts[0], *(part.lstrip("0") for part in parts[1:])) if len(parts) == 3 else (named,)


class RailStep(Struct, frozen=True, kw_only=True):
    order_name: str  # our ``return_id`` or ``end_to_end_id``
    institution_id: int
    kind: Kind
    holder_id: int
    original_end_to_end_id: str | None  # the received Pix, of a refund
    amount_cents: int
    payee: str | None = None  # the payee of an order to send (``name_payee``)
    name_there: str | None  # the institution's name for it; it never changes
    code_there: str | None = None
    """The institution's own code of it (``SentPix.code``), once reported; it never changes either."""
    owner_tax_id: str | None = None  # the owner of the payee's key, from a first step, with the owner's name
    owner_name: str | None = None
    state: State
    may_be_done: bool = False  # whether a call of it may have taken effect
    called_at: datetime | None = None  # when it was first called, in real time
    outcome: Outcome | None = None
    """*Answered*: the institution has it, and reports how it ended; *never*: no call was made, and none will be."""
    refusal_code: str | None = None
    refusal_reason: str | None = None
    created_at: datetime
    only_asked: bool = False
    """Its order was open at a loss of the database: a call of it may be lost, so no more are made."""


class MemoryUnavailable(Exception):  # noqa: N818  it is not our error
    """A row cannot be read or changed now; the planned call is not made."""


class RailMemory(Protocol):
    """The rows of one account. All methods raise ``MemoryUnavailable``."""

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        """Open the rows of orders and refunds, by our name, created if missing; closed ones are left out."""
        ...

    async def count_in_flight(self, since: datetime) -> int:
        """Count sent orders that were first called since then, and have not ended as far as we know."""
        ...

    async def find_loss(self) -> datetime | None:
        """Return since when calls may be lost, if the database has recently lost data."""
        ...

    async def take(self, before: RailStep, after: RailStep) -> bool:
        """Change a row durably; ``False`` if another worker has changed it."""
        ...


def name_at_institution(naming_key: bytes, institution_id: int, kind: Kind, holder_id: int, external_id: str) -> str:
    """Return the name of a request at the institution: the same for the same request, even after a loss of data here.

    Institutions keep these names, so this never changes.

    Args:
        holder_id: The requesting holder; of a family the first one, which stays the first in any restored copy.
        external_id: The request's, or else our ``return_id``.

    Example:
        >>> [name_at_institution(b"key", 1, kind, 2, "order-77") for kind in ("refund", "order")]
        ['c1c3a889216bbd6a02c98b5ddad4e0d3', '34c6ee378432224104a8e8b0d45d767b']
    """
    text = f"{institution_id}|{kind}|{holder_id}|{external_id}"
    return hmac.new(naming_key, text.encode(), hashlib.sha256).hexdigest()[:_NAME_LENGTH]


# Returns of sent Pix by their payees, as an institution lists them with its sent Pix.

SPAN: Final = timedelta(days=100)  # a payee may return a Pix for 90 days; lists are by the time of sending


class SentReturn(Struct, frozen=True, kw_only=True):
    end_to_end_id: str  # the network's, of the Pix that was sent
    return_id: str
    amount_cents: int
    settled_at: datetime


class SentReturns(Protocol):
    def list_returns(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SentReturn | MalformedItem]]:
        """Yield pages of returns of the Pix that were sent in an interval, unordered."""
        ...
