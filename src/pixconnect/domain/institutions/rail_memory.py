"""What is remembered of each order that is asked for at an institution, so that no call is made twice unknowingly.

::

    new ──it has a name there──────► minted ──► calling ──it may be done──► asked ──► closed
                                       │  ▲        │  ▲                       │
                                       │  └─turned─┘  └──a repeat that does───┘
                                       │    away         nothing more
                                       └──no call will be made──► closed

Each step is taken by whoever finds the row as it was, under the fence of the account's slot: who did not take it makes no call.
Where our name is enough, a row is *minted* from the first; where a first step of sending names it, it is *new* until then.
A call that was turned away before anything was done (``NotSent``) is none, unless an earlier one of the same row may be done.
A row that is found *calling* was cut off by the end of its process, and may be done. So may each that was open when the
database had lost something: it counts as *calling*, is asked about, and is never called again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

from pixconnect.domain.institutions.sent_return import SentReturn
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.rail import WaitsFor

Kind = Literal["refund", "order"]
State = Literal["new", "minted", "calling", "asked", "closed"]
Outcome = Literal["answered", "refused", "never", "decided"]
_NAME_LENGTH: Final = 32
"""The central bank's API takes up to 35 letters and digits."""


class OutgoingPix(Struct, frozen=True, kw_only=True):
    """An order, as the institution is to have it."""

    name: str
    """By which it is asked about; the same of the same order for ever."""
    amount_cents: int
    payer_key: str | None
    """A key of the account, where it has one."""
    payee: Party
    """The account; or where ``is_by_key`` a key, of whose owner at most the CPF or CNPJ is known."""
    is_by_key: bool
    """Or by a code, which leads to a key too."""
    br_code: str | None = None
    """The text of the code that is paid."""
    txid: str | None = None
    """Of what the code asks for, where it says one."""
    payer_message: str | None = None
    code: str | None = None
    """The institution's own, where a first step has told it."""
    not_after_s: float | None = None
    """Of a call that is made again, or of a code, which may be read first: by the monotonic clock, when it must have left."""


class SentPix(Struct, frozen=True, kw_only=True):
    """A Pix that leaves the account, as the institution lists it."""

    name: str
    """Of whoever asked for it."""
    code: str | None = None
    """The institution's own, where it is asked by that and not by ours."""
    end_to_end_id: str | None
    """The network's, once it is told."""
    amount_cents: int | None
    """``None`` of one that is there no more."""
    status: Literal["under_way", "settled", "refused"]
    settled_at: datetime | None
    payee: str | None = None
    """As ``name_payee``, where it is told whole."""
    paid: Party | None = None
    """Who it is paid to, as far as that is told: members that are masked as they are, and the others unknown."""
    reason: str | None = None
    """Why it was refused, in the institution's words."""
    waits_for: WaitsFor | None = None
    """Of one that is under way, where it waits for a person there."""
    reject_code: str | None = None
    """The scheme's reason that says the same, where the institution tells it."""
    returns: Sequence[SentReturn] = ()
    """What its payee gave back, where the institution tells it."""


def name_payee(payee: Party, *, is_by_key: bool) -> str:
    """Whom an order goes to, in one text: the key, or what an account is.

    Example:
        >>> from pixconnect.domain.money.holder import UNKNOWN_PARTY
        >>> name_payee(UNKNOWN_PARTY, is_by_key=False)
        '99999999/0/0'
    """
    return payee.key or "" if is_by_key else f"{payee.ispb}/{payee.branch}/{payee.account_number}"


def is_same_payee(told: str | None, asked: str | None) -> bool:
    """Whether the institution pays whom we asked it to, as far as it tells; some fill numbers of accounts up with zeros.

    Example:
        >>> is_same_payee("54811417/0001/00000000000000000981", "54811417/1/981")
        True
        >>> is_same_payee("joana@pix.example", "other@pix.example")
        False
    """
    return told is None or told == asked or _trim_account(told) == _trim_account(asked or "")


def _trim_account(named: str) -> tuple[str, ...]:
    parts = named.split("/")
    # A key has no such form, and is compared as it stands.
    return (parts[0], *(part.lstrip("0") for part in parts[1:])) if len(parts) == 3 else (named,)


class RailStep(Struct, frozen=True, kw_only=True):
    order_name: str
    """Our ``return_id`` or ``end_to_end_id``."""
    institution_id: int
    kind: Kind
    holder_id: int
    original_end_to_end_id: str | None
    """The received Pix, of a refund."""
    amount_cents: int
    payee: str | None = None
    """Whom an order to send goes to (``name_payee``)."""
    name_there: str | None
    """What the institution knows it by; it never changes."""
    code_there: str | None = None
    """The institution's own code of it (``SentPix.code``), once it is told; it never changes either."""
    owner_tax_id: str | None = None
    """Whose the payee's key is, where a first step told it, with that one's name."""
    owner_name: str | None = None
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
    only_asked: bool = False
    """Its order was open at a loss of the database: a call of it may be forgotten, so none is made any more."""


class MemoryUnavailable(Exception):  # noqa: N818  it is not our error
    """A row cannot be read or changed now; whoever was about to call does not."""


class RailMemory(Protocol):
    """The rows of one account. Everything raises ``MemoryUnavailable``."""

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        """The rows of orders and refunds, by our name, each made if there is none; what is not open there is left out."""
        ...

    async def count_in_flight(self, since: datetime) -> int:
        """How many orders to send were first called since then, and have not ended as far as we know."""
        ...

    async def find_loss(self) -> datetime | None:
        """Since when calls may have been forgotten here, where the database has lost something of late."""
        ...

    async def take(self, before: RailStep, after: RailStep) -> bool:
        """Change a row durably; ``False`` if it is not as it was, so that somebody else has it."""
        ...


def name_refund_there(naming_key: bytes, institution_id: int, holder_id: int, external_id: str) -> str:
    """What the institution shall know a refund by: the same again for the same request, whatever was forgotten here.

    Names that were given stand at institutions, so this never changes.

    Args:
        naming_key: The account's.
        institution_id: The account.
        holder_id: The holder who asks for it; of a family, the first one, which stays the first in any restored copy.
        external_id: The request's, or else our ``return_id``.

    Example:
        >>> name_refund_there(b"key", 1, 2, "order-77")
        'c1c3a889216bbd6a02c98b5ddad4e0d3'
    """
    return _name_there(naming_key, f"{institution_id}|refund|{holder_id}|{external_id}")


def name_order_there(naming_key: bytes, institution_id: int, holder_id: int, external_id: str) -> str:
    """As ``name_refund_there``, of an order to send; it never changes either.

    Example:
        >>> name_order_there(b"key", 1, 2, "order-77")
        '34c6ee378432224104a8e8b0d45d767b'
    """
    return _name_there(naming_key, f"{institution_id}|order|{holder_id}|{external_id}")


def _name_there(naming_key: bytes, text: str) -> str:
    return hmac.new(naming_key, text.encode(), hashlib.sha256).hexdigest()[:_NAME_LENGTH]
