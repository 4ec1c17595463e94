"""The port to one account at an institution: the parts of its API that receiving and sending need.

Reading calls raise ``InstitutionUnavailable`` without a conclusive answer. Changing calls never raise: an unclear result is
``UnknownOutcome``, and is queried, never guessed.

Sources: the central bank's Pix API 2.9.0, and each institution's documents (``features/institutions/profiles``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct

from pixconnect.features.due_charges.rules.terms import are_same
from pixconnect.features.institutions.rules.account import AccountCertificate, InstitutionAccount
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentReturns
from pixconnect.features.institutions.rules.sweep import Contests, MalformedItem
from pixconnect.kernel.rules.charge_contents import ChargeContents, DayAmount, DueTerms
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party
from pixconnect.kernel.rules.rail import InitiationType, MovementKind


class InstitutionUnavailable(Exception):  # noqa: N818  it is not our error
    """The institution gave no readable answer.

    Args:
        reason: For the operator, without secrets.
        retry_after: The wait that the institution requests, if any.
        is_refusal: It rejects our credential: a repetition is rejected too.
    """

    def __init__(self, reason: str, retry_after: timedelta | None = None, *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.retry_after, self.is_refusal = reason, retry_after, is_refusal


class InstitutionTraits(Struct, frozen=True, kw_only=True):
    """Reliable traits of the institution; they never change while a process runs."""

    list_lag: timedelta = timedelta(minutes=1)  # how late a payment may appear in the list of received Pix
    lifetime_min_s: int = 1
    lifetime_max_s: int = 2_147_483_647
    opens_due: bool = False  # charges with a due date, as the central bank's API has them (``cobv``)
    repeats_refunds: bool = False
    """It documents that a second request under the same name returns no more money, regardless of its answer."""
    sends: Sequence[InitiationType] = ()  # how payees may be named when sending; empty if it cannot send
    sends_per_s: float = 1.0
    sends_at_once: int = 1  # maximum of pending transfers
    resend_for: timedelta = timedelta(0)
    """How long after its first call an order may be resent: the institution documents that this moves no more money."""
    resends_after_restart: bool = True
    """Whether any process may resend; otherwise only the one that made the first call."""
    compares_owner: bool = False
    """A key may be sent with its owner's CPF or CNPJ, and the order is refused if the key belongs to another owner."""
    states_amount_of_code: bool = False
    """A code is paid with our amount; otherwise with its own, so that a code without a fixed amount cannot be paid."""
    names_first: bool = False
    """It sends in two steps (``FirstStep``), is queried only by the first one's name, and keeps none of our names."""
    has_balance: bool = True
    has_statement: bool = False  # it lists everything that moved on the account, by day
    certificates: Sequence[AccountCertificate] = ()
    """The account's and the institution's certificates, if the operator has configured any."""
    has_webhook_per_key: bool = True
    """Each key has a webhook. Otherwise the account has any number, one of them ours."""


class ListedRefund(Struct, frozen=True, kw_only=True):
    """A return of a received Pix in the institution's list, whether or not we requested it."""

    id: str  # the requester's id: ours, a person's or the institution's
    return_id: str | None  # the network's (``rtrId``), which begins with D
    amount_cents: int
    status: Literal["under_way", "returned", "refused"]
    asked_at: datetime | None
    settled_at: datetime | None
    reason: str | None = None  # why it was refused, in the institution's words


class ReceivedPix(Struct, frozen=True, kw_only=True):
    """A Pix that has settled on the account."""

    end_to_end_id: str
    txid: str | None
    key: str | None
    amount_cents: int
    settled_at: datetime  # the institution's ``horario``
    payer: Party = UNKNOWN_PARTY  # as far as reported: in full, masked with asterisks, or unknown
    payer_message: str | None = None
    parts: DayAmount | None = None  # its parts, if the institution reports them
    refunds: Sequence[ListedRefund] = ()


class ChargeTerms(ChargeContents, frozen=True, kw_only=True):
    """What is to be charged, under our name for it."""

    txid: str


class OpenedCharge(Struct, frozen=True, kw_only=True):
    txid: str
    network_txid: str | None = None  # the institution's own txid, if it does not accept ours
    key: str | None
    amount_cents: int
    status: Literal["active", "paid", "removed_by_us", "removed_by_institution"]
    created_at: datetime  # its expiry counts from here
    lifetime_s: int  # as of ``ChargeTerms``
    due: DueTerms | None = None
    code: str | None  # the text of its QR code ("copia e cola")
    location: str | None  # where its payload is served, without a scheme
    revision: int = 0
    paid_by: Sequence[str] = ()  # end-to-end ids of its payments, if the institution lists them with the charge

    @property
    def has_code(self) -> bool:
        return self.code is not None or self.location is not None

    def is_as_asked(self, terms: ChargeTerms) -> bool:
        if (self.txid, self.amount_cents, self.key or terms.key) != (terms.txid, terms.amount_cents, terms.key):
            return False
        if self.due is None or terms.due is None:
            return self.due is terms.due
        return are_same(self.due, terms.due)


class CertainRefusal(Struct, frozen=True, kw_only=True):
    """The institution certainly refused this very call, and nothing was done: its code is in the profile's closed list."""

    code: str
    reason: str
    member: str | None = None  # the request's member, if the answer names it
    reject_code: str | None = None  # the equivalent reason of the scheme, if there is one


class NotSent(Struct, frozen=True, kw_only=True):
    """The call certainly never arrived, or was turned away before anything was done (429, a connection that was never made)."""

    reason: str
    retry_after: timedelta | None = None


class UnknownOutcome(Struct, frozen=True, kw_only=True):
    """The result is unknown: no answer, 5xx, an unreadable body, or an unlisted code or text."""

    reason: str
    is_refusal: bool = False
    """Only a text refused this sending call: it is trusted once the institution still has nothing under our name."""


ItemKind = MovementKind | Literal["pix", "refund"]
"""``pix`` and ``refund`` are Pix and their returns, which orders and credits explain; all others are movements."""
ItemSource = str  # a file's format, or `api` for the institution's API, which lists lines of whole days
OpeningAnswer = OpenedCharge | CertainRefusal | NotSent | UnknownOutcome
RefundAnswer = ListedRefund | CertainRefusal | NotSent | UnknownOutcome
SendAnswer = SentPix | CertainRefusal | NotSent | UnknownOutcome


class ItemParts(Struct, frozen=True, kw_only=True):
    """The number of Pix that a line sums, and their network names, as far as reported."""

    count: int
    names: tuple[str, ...] = ()


class InstitutionItem(Struct, frozen=True, kw_only=True):
    """One line of the account's statement; its day is one of Sao Paulo."""

    item_id: str  # the institution's; unique on the account
    day: date
    settled_at: datetime | None  # set if the institution reports more than the day
    direction: Literal["IN", "OUT"]
    amount_cents: int
    kind: ItemKind
    end_to_end_id: str | None = None  # the Pix or return that it is, or is about
    return_id: str | None = None  # the network's name of the return that it is, where its Pix is named too
    txid: str | None = None
    tax_id: str | None = None  # the counterparty's, with its name in ``counterparty``, if the line has them
    counterparty: str | None = None
    text: str = ""
    parts: ItemParts | None = None

    @property
    def signed_cents(self) -> int:
        return self.amount_cents if self.direction == "IN" else -self.amount_cents

    @property
    def names(self) -> tuple[str, ...]:
        """The network's names in it, most certain first: a return names its original too."""
        return tuple(name for name in (self.return_id, self.end_to_end_id) if name is not None)


class Webhook(Struct, frozen=True, kw_only=True):
    """The registered webhook of a key, or of the account if ``key`` is ``None``."""

    key: str | None
    url: str
    created_at: datetime | None = None


class PermissionTried(Struct, frozen=True, kw_only=True):
    """A permission of the credential, tried without moving money."""

    name: str
    is_given: bool | None  # ``None`` if it cannot be tried
    explanation: str = ""


class DayFiles(Protocol):
    """A past day's file, which the institution writes on request."""

    async def request_day_file(self, day: date) -> str:
        """Request it; returns its name for fetching. A repetition makes another file of the same day."""
        ...

    async def fetch_day_file(self, name: str) -> bytes | None:
        """Fetch the file's octets; ``None`` while it is being written."""
        ...


class Sender(Protocol):
    """Sending over one account; the calls are those of ``Institution``, with the credential that may send."""

    @property
    def sent_returns(self) -> SentReturns | None:
        """``None`` if the institution does not list payees' returns."""
        return None

    async def send(self, pix: OutgoingPix) -> SendAnswer:
        """Send a Pix under our name; only where ``traits.sends``."""
        return NotSent(reason="the central bank's API sends nothing")

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        """Read a Pix by our name, or by their code once reported; ``None`` if it does not exist, though it may appear later."""
        raise InstitutionUnavailable("the central bank's API sends nothing")

    @abstractmethod
    async def close(self) -> None:
        """Close connections and discard the account's token."""


class Institution(Sender, Protocol):
    """One account. The adapter bounds each call in time and size, keeps to the budgets, and renews its token.

    Parts with a body are those that the central bank's API lacks.
    """

    @property
    @abstractmethod
    def traits(self) -> InstitutionTraits: ...

    @property
    def day_files(self) -> DayFiles | None:
        """The institution's files of past days, which are authoritative; ``None`` if it has none."""
        return None

    @property
    def contests(self) -> Contests | None:
        """``None`` if the institution reports no contests."""
        return None

    @abstractmethod
    async def open_charge(self, terms: ChargeTerms) -> OpeningAnswer:
        """Open a charge under its txid; if that exists already, ``UnknownOutcome``: the charge must be read."""

    @abstractmethod
    async def read_charge(self, txid: str, *, has_due_date: bool = False) -> OpenedCharge | None:
        """Read a charge of one kind, which have separate queries; ``None`` if the institution reports none."""

    @abstractmethod
    async def revise_charge(self, terms: ChargeTerms) -> OpeningAnswer: ...

    @abstractmethod
    async def remove_charge(self, txid: str, *, has_due_date: bool = False) -> OpeningAnswer: ...

    @abstractmethod
    def list_received(
        self, since: datetime, until: datetime, *, only_returned: bool = False
    ) -> AsyncIterator[Sequence[ReceivedPix | MalformedItem]]:
        """Yield pages of received Pix of an interval (both ends included), unordered; shifting pages may repeat one.

        The institution's instants count. A Pix with an unreadable return comes without it; that return comes as a separate
        item. With ``only_returned`` those without a return are left out.
        """

    @abstractmethod
    async def read_received(self, end_to_end_id: str) -> ReceivedPix | None: ...

    @abstractmethod
    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> RefundAnswer:
        """Return a part of a received Pix under our id; a repetition under the same id returns nothing more."""

    @abstractmethod
    async def read_refund(self, end_to_end_id: str, refund_id: str) -> ListedRefund | None: ...

    async def read_balance(self) -> int:
        """Read the balance in cents, including blocked money if reported; only with ``traits.has_balance``."""
        raise InstitutionUnavailable("the central bank's API has no balance")

    async def read_closing_balance(self, day: date) -> int | None:
        """Read the balance at the end of a day, as ``read_balance``; ``None`` if the institution does not report it."""
        return None

    def list_statement(self, since: date, until: date) -> AsyncIterator[Sequence[InstitutionItem | MalformedItem]]:
        """List lines of whole days, both included; only with ``traits.has_statement``."""
        raise InstitutionUnavailable("the institution has no statement that can be read")

    @abstractmethod
    async def list_webhooks(self) -> Sequence[Webhook]: ...

    @abstractmethod
    async def set_webhook(self, key: str, url: str) -> None:
        """Register a webhook; an unknown result raises ``InstitutionUnavailable``: the list shows the truth."""

    @abstractmethod
    async def remove_webhook(self, key: str, url: str) -> None: ...

    @abstractmethod
    async def check(self, keys: Sequence[str]) -> Sequence[PermissionTried]:
        """Try each permission without moving money, and return the institution's answer for each key."""


DaySource = Literal["api", "own_file", "file_by_hand"]
"""The source of an account's days: the API's list of lines, the institution's daily file, or a file by hand."""


def find_day_source(institution: Institution) -> DaySource:
    if institution.day_files is not None:
        return "own_file"
    return "api" if institution.traits.has_statement else "file_by_hand"


class OpenAccount(Struct, frozen=True, kw_only=True):
    account: InstitutionAccount
    institution: Institution
    own_sender: Sender | None = None  # separate sending, if the account has a credential for that alone

    @property
    def sender(self) -> Sender:
        return self.own_sender or self.institution
