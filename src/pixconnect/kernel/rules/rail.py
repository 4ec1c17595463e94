"""The port to the network that settles money and resolves keys; calls take many orders or reports at once.

An adapter implements one institution's access to the scheme: the sandbox over HTTP, later ISO 20022 or an institution's API.
The most important rule: **an unknown outcome is not a failure**. After a send, only a rejection of that very order or the
answer to a query is final; a duplicate, a late answer, a rejection of a re-send or silence is a reason to query.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from pixconnect.kernel.rules.charge_contents import DayAmount
from pixconnect.kernel.rules.holder import KeyType, Party

InitiationType = Literal["KEY", "MANUAL", "QRCODE"]
MovementKind = Literal["opening_balance", "fee", "wire", "boleto", "by_hand", "reversal", "judicial", "other"]
"""The reason for a movement by no Pix of this service; ``by_hand`` is a person in the institution's app."""


_APART: Final = timedelta(minutes=1)


def date_settled(ours: datetime | None, networks: datetime | None) -> datetime | None:
    """Return the network's instant, if it differs from ours by a minute or more.

    Lists of received Pix use the same rule (``features/pix_api/tables.py``).
    """
    return ours if ours is None or networks is None or abs(ours - networks) < _APART else networks


class RailUnavailable(Exception):  # noqa: N818  it is not our error
    """The rail was unreachable, and we sent nothing that could take effect."""

    summary = "the rail cannot be reached"


class RailRefusesKey(RailUnavailable):
    summary = "the rail refuses our key: start it with the service's secret keys, the previous one too"


Contests = Literal["none", "theirs"]


class Abilities(Struct, frozen=True, kw_only=True):
    """A rail's abilities. Assembly puts them into ``Policy.abilities``, where use cases read them."""

    refuses_credits: bool = True  # a reported payment can be refused in the acknowledgement: it has not settled yet
    refunds_partly: bool = True
    resolves_keys: bool = True
    issues_codes: bool = True  # payers at other institutions can pay our QR codes
    answers_by_our_id: bool = True  # it answers queries by our id, and refuses a second order under the same id
    # That id is also the order's name on the network; otherwise the rail reports the network's later.
    keeps_our_id: bool = True
    # Where contests are decided: ``none`` if they are not reported, ``theirs`` if the institution blocks and decides.
    contests: Contests = "none"
    defence_length_max: int = 0  # the maximum length of an answer; 0 if contests are not reported


class DirectoryEntry(Struct, frozen=True, kw_only=True):
    """The account that a key leads to, according to the directory."""

    key: str
    key_type: KeyType
    party: Party


class Order(Struct, frozen=True, kw_only=True):
    """One credit order (pacs.008); a retry has the same id."""

    # Ours, generated before the first try. The network's name may differ (``network_id`` in answers and reports).
    end_to_end_id: str
    amount_cents: int
    debit_party: Party
    credit_party: Party
    initiation_type: InitiationType
    txid: str | None
    ordered_at: datetime  # when the transfer was accepted; the network judges its age by the time in its id instead
    payer_key: str | None = None  # the holder's own key that it pays from, where the rail requires one
    payer_message: str | None = None  # for the payee, at most 140 characters
    # The code to pay, of an order over an account at an institution, which reads it for itself.
    br_code: str | None = None


class RefundOrder(Struct, frozen=True, kw_only=True):
    """One return of a received payment (pacs.004); a retry has the same id."""

    return_id: str
    original_end_to_end_id: str
    amount_cents: int
    reason: str  # the scheme's code of a reason (``refund.py``)
    description: str | None  # for the receiver, at most 140 characters
    ordered_at: datetime


WaitsFor = Literal["approval", "funds"]
"""A person's pending task: to approve an order at the institution, or to fund the account there."""


# ``omit_defaults`` here and in reports: the fingerprint of a kept report covers only the fields that it has.
class Taken(Struct, frozen=True, kw_only=True, tag="taken", omit_defaults=True):
    """The rail has the order; its outcome comes by report or by query."""

    # The network's name of the order, once known to the rail; ``None`` if that is our id. It never changes.
    network_id: str | None = None
    waits_for: WaitsFor | None = None  # set if it waits for a person: nothing is wrong with it, and it may take days


class Settled(Struct, frozen=True, kw_only=True, tag="settled", omit_defaults=True):
    """The money has moved. Final."""

    settled_at: datetime
    network_id: str | None = None
    payee: Party | None = None  # the payee, if an institution reports it only now; members may be masked


class Rejected(Struct, frozen=True, kw_only=True, tag="rejected", omit_defaults=True):
    """This very order was rejected and no money moved. Final."""

    code: str  # the scheme's reason, such as AC03
    reason: str
    network_id: str | None = None


class AlreadyKnown(Struct, frozen=True, tag="already_known"):
    """A duplicate of an order that the rail has, or a retry that came too late: query it; this is never a rejection."""


class NotTaken(Struct, frozen=True, tag="not_taken"):
    """The order certainly never left us, such as when the connection was refused."""


class Unknown(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="unknown"):
    """A query found no such id, or a submission got no answer. Never final."""

    is_repeatable: bool = False
    """In an answer to a query: sending it again moves no more money, even after a loss of data here."""
    network_id: str | None = None
    """As of ``Taken``, if reported before anything was sent: the order's name, if it was taken."""


class NeverTaken(Struct, frozen=True, tag="never_taken"):
    """A query found no such id, and the rail can never accept it any more. Final: the money is released.

    A rail may answer so only after the id's window has closed (``is_outside_window``), and only if it rejects everything that
    is still on its way under this id. A rail that cannot guarantee that answers ``Unknown``.
    """


# Settled, Rejected and NeverTaken are final. A submission is never answered NeverTaken.
SubmitAnswer = Taken | Settled | Rejected | AlreadyKnown | NotTaken | Unknown
QueryAnswer = Taken | Settled | Rejected | Unknown | NeverTaken


class Report(Struct, frozen=True, kw_only=True):
    """A report of the rail. A feature's kind has a tag of its own, and a row among its ``report_takers``."""

    report_id: str  # the id to acknowledge; a repeated report carries the same

    @property
    def subject(self) -> str:
        """The name on the network of what it is about."""
        return self.report_id

    def find_fault(self) -> str | None:
        """Return why it can never be recorded, naming field and rule; ``None`` if it can."""
        return None


class CreditReport(Report, frozen=True, kw_only=True, tag="credit"):
    """A payment to one of our holders; the rail waits for our acknowledgement."""

    end_to_end_id: str
    amount_cents: int
    debit_party: Party
    credit_party: Party  # our holder's account as the payer named it; ``key`` is set if paid by key
    txid: str | None
    initiation_type: InitiationType
    reported_at: datetime  # this moment decides whether a charge is paid in time
    payer_message: str | None = None  # the payer's message, ``RemittanceInformation`` of the network
    settled_at: datetime | None = None  # the network's instant; ``None`` is ``reported_at``
    parts: DayAmount | None = None  # its parts, if an institution reports them

    @property
    def subject(self) -> str:
        return self.end_to_end_id


# If money comes in two steps, a rail reports one payment twice: accepted, then settled (a plain ``CreditReport``) or cancelled.
# It reports a suspect payment as held, in place of accepted or after it. Each report has the whole state, so that any order
# works, and its own id.


class CreditAccepted(CreditReport, frozen=True, kw_only=True, tag="credit_accepted"):
    """A payment to one of our holders whose money has not arrived. Only now can we refuse it."""


class CreditHeld(CreditReport, frozen=True, kw_only=True, tag="credit_held"):
    """A suspect payment to one of our holders: the institution holds it back (precautionary block).

    It has the money, and the holder may not spend it. A plain ``CreditReport`` of the same payment means released, a
    ``CreditCancelled`` returned. Only now can we refuse it.
    """

    until: datetime  # when the institution releases or returns it at the latest


class CreditCancelled(CreditReport, frozen=True, kw_only=True, tag="credit_cancelled"):
    """The payment will never settle. Final."""

    code: str  # the scheme's reason, such as AB03


class SettledReport(Report, frozen=True, kw_only=True, tag="settled", omit_defaults=True):
    """An order or refund order has settled."""

    id: str  # our ``end_to_end_id`` or ``return_id``, or a ``network_id`` that the rail reported before
    settled_at: datetime
    network_id: str | None = None

    @property
    def subject(self) -> str:
        return self.id


class RejectedReport(Report, frozen=True, kw_only=True, tag="rejected", omit_defaults=True):
    """An order or refund order was rejected."""

    id: str
    code: str
    reason: str
    network_id: str | None = None

    @property
    def subject(self) -> str:
        return self.id


class ReturnReport(Report, frozen=True, kw_only=True, tag="return"):
    """The payee returns a transfer, wholly or in part; the rail waits for our acknowledgement."""

    return_id: str
    original_end_to_end_id: str  # ours, or the ``network_id`` that the rail reported
    amount_cents: int
    reason: str
    description: str | None = None
    reported_at: datetime
    settled_at: datetime | None = None

    @property
    def subject(self) -> str:
        return self.return_id


class InstitutionReturn(Report, frozen=True, kw_only=True, tag="institution_return"):
    """A return of a payment to one of our holders, without one of our orders.

    A person made it in the institution's app, or the institution itself. It has settled and cannot be refused.
    """

    return_id: str | None  # the network's; ``None`` if not reported
    asked_as: str  # the requester's name for it; unique among the returns of one payment
    original_end_to_end_id: str
    amount_cents: int
    settled_at: datetime | None

    @property
    def subject(self) -> str:
        return self.return_id or self.original_end_to_end_id


class MovementReport(Report, frozen=True, kw_only=True, tag="movement"):
    """The institution moved money on a holder's account without an order, refund, payment or return here."""

    item_id: str  # the institution's name of the item, unique on the account; never one of an order or refund here
    party: Party
    kind: MovementKind
    direction: Literal["IN", "OUT"]
    amount_cents: int  # only an opening balance may be 0
    end_to_end_id: str | None = None  # the Pix that it is about, such as the one that a fee is taken of
    description: str | None = None
    settled_at: datetime

    @property
    def subject(self) -> str:
        return self.item_id


ArrivalReport = CreditReport | CreditAccepted | CreditHeld | CreditCancelled | ReturnReport | MovementReport
OwnReport = ArrivalReport | SettledReport | RejectedReport
"""All kinds that no feature adds."""


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """Our answer to one report, sent once it is durable here."""

    report_id: str
    refusal_code: str | None = None  # the scheme's reason (BE17, AM09, AC06...) where we refuse a credit or return


Message = TypeVar("Message")
MessageAnswer = TypeVar("MessageAnswer")


class MessageKind(Struct, Generic[Message, MessageAnswer], frozen=True, kw_only=True):
    """Messages of a feature to the institution; a repeated one must change nothing there."""

    name: str  # of the simulated network's call that takes them, too
    answers: type[list[MessageAnswer]]
    unknown: MessageAnswer  # where no answer came


class SettledItem(Struct, frozen=True, kw_only=True):
    """One line of the rail's statement."""

    id: str
    """The name in the query or report: an ``end_to_end_id`` or a ``return_id``, ours or a ``network_id``."""
    kind: Literal["order", "refund", "credit", "return", "movement_in", "movement_out", "held", "hold_ended"]
    """Orders and refunds went out, credits and returns came in; movements have no order here.

    A suspect credit came in as held. Returned, it went out again (``hold_ended``); released, the credit itself came in at once.
    Both have its ``end_to_end_id`` as their name, with the suffix ``/held`` or ``/hold_ended``.
    """
    amount_cents: int
    settled_at: datetime


class Position(Struct, frozen=True, kw_only=True):
    """The rail's balance for us: all incoming settlements, less all outgoing ones."""

    amount_cents: int
    as_of: datetime


class Rail(Protocol):
    """The network's port. The adapter bounds every call in time and size.

    Every call except the submitting ones raises ``RailUnavailable`` if no answer came.
    """

    @property
    def abilities(self) -> Abilities:
        """Never change while a process runs."""
        ...

    # Real directories count look-ups by payer, hence the tax id.
    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        """Look up a key of another institution, on behalf of the paying holder."""
        ...

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        """Send orders, or resend them under the same ids. One answer each, in order; never raises for one order."""
        ...

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]: ...

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        """Query how orders and refund orders ended. A final answer never changes.

        They are queried by our ``end_to_end_id`` or ``return_id``; without ``answers_by_our_id``, by the reported
        ``network_id``, and orders without one not at all.
        """
        ...

    async def send(self, kind: MessageKind[Message, MessageAnswer], messages: Sequence[Message]) -> list[MessageAnswer]:
        """Send a feature's messages. One answer each, in order; never raises for one message."""
        ...

    async def reports(self, wait_s: float) -> list[Report]:
        """Wait up to ``wait_s`` for reports, oldest first.

        A report may come again until it is acknowledged, and even after.
        """
        ...

    # A charge does not expire before payments reported in time are recorded.
    async def waiting_since(self) -> datetime | None:
        """When the oldest unacknowledged payment was reported, for all workers together."""
        ...

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Acknowledge reports; repetitions change nothing, and reports without an acknowledgement come again."""

    def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        """Read settlements from ``since`` on and before ``until``, by ``settled_at``, in batches.

        Each item comes once. A past span is complete, and its items never change.
        """
        ...

    async def position(self) -> Position:
        """Sum up all settlements by ``as_of``: two positions differ by the statement between them."""
        ...

    async def check(self) -> None: ...
