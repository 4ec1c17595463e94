"""The port to the network that settles and knows keys, in our words and in groups.

An adapter speaks for one institution's way to the scheme: the sandbox over HTTP, later ISO 20022 or an institution's API.
The one rule above all: **an unknown outcome is not a failure**. After a send, only a rejection of that very order or the
answer to a query is final; a duplicate, a late answer, a rejection of a re-send or silence is a reason to ask.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from pixconnect.domain.holder import KeyType, Party

InitiationType = Literal["KEY", "MANUAL", "QRCODE"]


class RailUnavailable(Exception):  # noqa: N818  it is not our error
    """The rail could not be asked, and nothing was sent that could take effect."""


class DirectoryEntry(Struct, frozen=True, kw_only=True):
    """What the directory knows of a key: the account that it leads to.

    Attributes:
        key: Normalised.
        key_type: Its type.
        party: The account and its owner, ``key`` and ``key_type`` among its fields.
    """

    key: str
    key_type: KeyType
    party: Party


class Order(Struct, frozen=True, kw_only=True):
    """One credit order (the scheme's pacs.008).

    Attributes:
        end_to_end_id: Its only name; a re-send carries the same.
        amount_cents: Cents.
        debit_party: Our holder.
        credit_party: Whoever is paid.
        initiation_type: How the payer named the payee.
        txid: Of the QR code, if it had one.
        ordered_at: When the transfer was accepted. How old it may be the network judges by the time in its id.
    """

    end_to_end_id: str
    amount_cents: int
    debit_party: Party
    credit_party: Party
    initiation_type: InitiationType
    txid: str | None
    ordered_at: datetime


class RefundOrder(Struct, frozen=True, kw_only=True):
    """One return of a received payment (the scheme's pacs.004).

    Attributes:
        return_id: Its only name; a re-send carries the same.
        original_end_to_end_id: The payment that is returned, wholly or in part.
        amount_cents: Cents.
        reason: MD06, BE08, FR01 or SL02.
        description: For the receiver, at most 140 characters.
        ordered_at: When it was accepted.
    """

    return_id: str
    original_end_to_end_id: str
    amount_cents: int
    reason: str
    description: str | None
    ordered_at: datetime


class Taken(Struct, frozen=True, tag="taken"):
    """The rail has the order; its outcome comes by report or by query."""


class Settled(Struct, frozen=True, kw_only=True, tag="settled"):
    """The money has moved. Final.

    Attributes:
        settled_at: When it did, by the rail.
    """

    settled_at: datetime


class Rejected(Struct, frozen=True, kw_only=True, tag="rejected"):
    """This very order was rejected and no money moved. Final.

    Attributes:
        code: The scheme's reason, such as AC03.
        reason: A sentence.
    """

    code: str
    reason: str


class AlreadyKnown(Struct, frozen=True, tag="already_known"):
    """A duplicate of an order that the rail has, or a re-send that came too late: ask; it is never a rejection."""


class NotTaken(Struct, frozen=True, tag="not_taken"):
    """The order certainly never left us, such as when the connection was refused."""


class Unknown(Struct, frozen=True, tag="unknown"):
    """To a query: the rail has never seen this id. To a submission: no answer came. Never final by itself."""


class NeverTaken(Struct, frozen=True, tag="never_taken"):
    """To a query: the rail has never seen this id, and can never take it any more. Final: the money goes back.

    Only to a question that was asked after the id's window had closed (``identifiers.is_outside_window``), and only where
    whatever may still be on its way under this id is refused for good. A rail that cannot promise that answers ``Unknown``.
    """


SubmitAnswer = Taken | Settled | Rejected | AlreadyKnown | NotTaken | Unknown
QueryAnswer = Taken | Settled | Rejected | Unknown | NeverTaken


class CreditReport(Struct, frozen=True, kw_only=True, tag="credit"):
    """Somebody pays one of our holders; the rail waits for our word.

    Attributes:
        report_id: What is acknowledged; a repeated report carries the same.
        end_to_end_id: The payment's name.
        amount_cents: Cents.
        debit_party: Whoever pays.
        credit_party: Our holder's account as the payer named it (``key`` where paid by key).
        txid: Of the QR code; that of a charge pays that charge.
        initiation_type: How the payer named the payee.
        reported_at: When the rail reports; this moment decides whether a charge is paid in time.
    """

    report_id: str
    end_to_end_id: str
    amount_cents: int
    debit_party: Party
    credit_party: Party
    txid: str | None
    initiation_type: InitiationType
    reported_at: datetime


class SettledReport(Struct, frozen=True, kw_only=True, tag="settled"):
    """An order or refund order of ours has settled.

    Attributes:
        report_id: What is acknowledged.
        id: The ``end_to_end_id`` or ``return_id``.
        settled_at: When.
    """

    report_id: str
    id: str
    settled_at: datetime


class RejectedReport(Struct, frozen=True, kw_only=True, tag="rejected"):
    """An order or refund order of ours was rejected.

    Attributes:
        report_id: What is acknowledged.
        id: The ``end_to_end_id`` or ``return_id``.
        code: The scheme's reason.
        reason: A sentence.
    """

    report_id: str
    id: str
    code: str
    reason: str


class ReturnReport(Struct, frozen=True, kw_only=True, tag="return"):
    """The receiver of a transfer of ours gives it back, wholly or in part; the rail waits for our word.

    Attributes:
        report_id: What is acknowledged.
        return_id: The return's name.
        original_end_to_end_id: The transfer of ours.
        amount_cents: Cents.
        reason: MD06, BE08, FR01 or SL02.
        description: From whoever returns it.
        reported_at: When the rail reports.
    """

    report_id: str
    return_id: str
    original_end_to_end_id: str
    amount_cents: int
    reason: str
    description: str | None
    reported_at: datetime


Report = CreditReport | SettledReport | RejectedReport | ReturnReport


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """Our word on one report, given after it is durable here.

    Attributes:
        report_id: Of the report.
        refusal_code: For a credit or return that we refuse: the scheme's reason (BE17, AM09, AC06...); otherwise ``None``.
    """

    report_id: str
    refusal_code: str | None = None


class Rail(Protocol):
    """The network as we see it. Every call has a bound on time and size of the adapter's own."""

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        """Ask the directory for a key that is not one of ours.

        Args:
            key: Normalised.
            payer_tax_id: Of the holder who will pay: real directories count look-ups by payer.
            end_to_end_id: The very id that the payment will carry.

        Returns:
            The entry, or ``None`` where there is none.

        Raises:
            RailUnavailable: The directory gave no answer.
        """
        ...

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        """Send orders, or send them again under the same ids. One answer each, in order; never raises for one order."""
        ...

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        """Send refund orders; as ``submit``."""
        ...

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        """Ask what became of orders and refund orders, by ``end_to_end_id`` or ``return_id``.

        A final answer is for good: whoever asks again gets the same.

        Raises:
            RailUnavailable: No answer came.
        """
        ...

    async def reports(self, wait_s: float) -> list[Report]:
        """What has happened and was not acknowledged yet, oldest first; waits up to ``wait_s`` for the first.

        The same report may come again until it is acknowledged, and even after.

        Raises:
            RailUnavailable: No answer came.
        """
        ...

    async def waiting_since(self) -> datetime | None:
        """When the oldest payment was reported that is not acknowledged yet, whoever has it in hand; ``None`` if none waits.

        A charge does not expire before what was reported in its time is recorded.

        Raises:
            RailUnavailable: No answer came.
        """
        ...

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Give our word on reports; giving it twice changes nothing.

        Raises:
            RailUnavailable: No answer came; the reports will come again.
        """
        ...

    async def check(self) -> None:
        """See whether the rail answers.

        Raises:
            RailUnavailable: It does not.
        """
        ...
