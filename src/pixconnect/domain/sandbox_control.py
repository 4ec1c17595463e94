"""The port through which the service drives the simulated network: what people outside do, what breaks, what time it is.

Only the sandbox has it. In live mode nothing implements it, and nothing of the control interface is served.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct, field

from pixconnect.domain.holder import KeyType, Party
from pixconnect.domain.money import AmountCents
from pixconnect.domain.rail import DirectoryEntry, InitiationType

Operation = Literal["lookup", "resolve", "submit", "query", "refund", "return", "payment"]
Effect = Annotated[
    str,
    Meta(
        pattern=r"^(reject:[A-Z0-9]{4}|delay:[0-9]{1,9}|no_answer|lost|duplicate_answer|out_of_order|unavailable)$",
        description="reject:<SPI code>, delay:<ms>, no_answer, lost, duplicate_answer, out_of_order or unavailable",
    ),
]
ArrivalStatus = Literal["PROCESSING", "CONFIRMED", "ERROR"]

RULES_MAX = 100
"""How many fault rules there can be at once."""


class SandboxUnavailable(Exception):  # noqa: N818  it is not our error
    """The sandbox cannot be reached, or a rule says so: nothing was done, but for what ``SandboxSilent`` says."""


class SandboxSilent(SandboxUnavailable):
    """It was asked and gave no answer: what was asked for may have been done, or is done later."""


class SandboxRefusal(Exception):  # noqa: N818  the sandbox judged what it was asked
    """The sandbox understood, and what was asked cannot be.

    Args:
        reason: Which of the reasons below it is.
        message: A sentence.
    """

    def __init__(self, reason: Literal["invalid", "unknown"], message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OutsidePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who pays from outside; what is left out is made up.

    Attributes:
        name: The account owner's.
        tax_id: CPF or CNPJ, unmasked.
    """

    name: str | None = None
    tax_id: str | None = None


class OutsideTransfer(Struct, frozen=True, kw_only=True):
    """Money that somebody outside sends to one of our holders.

    Attributes:
        credit_party: Our holder's account, ``key`` among its fields where it was found by key.
        amount_cents: Cents.
        txid: Of the QR code, if one was read.
        initiation_type: How the payer named the payee.
        payer: Who pays.
    """

    credit_party: Party
    amount_cents: AmountCents
    txid: str | None = None
    initiation_type: InitiationType = "KEY"
    payer: OutsidePayer = field(default_factory=OutsidePayer)


class Arrival(Struct, frozen=True, kw_only=True):
    """What became of a payment or return from outside.

    Attributes:
        id: The payment's ``end_to_end_id``, or the return's ``return_id``.
        amount_cents: Cents.
        status: CONFIRMED only after the service's own word; PROCESSING when that did not come in time.
        code: Why it failed.
    """

    id: str
    amount_cents: int
    status: ArrivalStatus
    code: str | None = None


class NewKey(Struct, frozen=True, kw_only=True):
    """A directory entry to be made, with a new outside account behind it.

    Attributes:
        key_type: Its type.
        key: Normalised; ``None`` is made up.
        name: The owner's; ``None`` is made up.
        tax_id: The owner's; ``None`` is the key itself where it is one, or made up.
    """

    key_type: KeyType
    key: str | None = None
    name: str | None = None
    tax_id: str | None = None


class NewQrCode(Struct, frozen=True, kw_only=True):
    """A QR code of an outside merchant to be made.

    Attributes:
        kind: A dynamic one has a location, an amount, and is paid once.
        key: Of the merchant; ``None`` is the sandbox's own merchant. Not looked at: a code may name what does not exist.
        amount_cents: Cents; a dynamic code needs it.
        txid: ``None`` is none (static) or made up (dynamic).
    """

    kind: Literal["static", "dynamic"]
    key: str | None = None
    amount_cents: AmountCents | None = None
    txid: str | None = None


class FaultMatch(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which messages a rule is for; what is left out matches all."""

    key: str | None = None
    """The payee's Pix key."""
    amount_cents: AmountCents | None = field(default=None, name="amount")
    """The message's amount (``amount`` on the wire)."""
    operation: Operation | None = None
    """The kind of message."""


class FaultRule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One way in which the network misbehaves."""

    effect: Effect
    """What happens."""
    match: FaultMatch = FaultMatch()
    """To which messages."""
    probability: Annotated[float, Meta(ge=0, le=1)] | None = None
    """To what share of them, from 0 to 1."""
    times: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    """To how many of them at most; counts down."""


class Due(Struct, frozen=True, kw_only=True):
    """Where the sandbox stands with its deadlines.

    Attributes:
        next_due_at: The sandbox's next deadline; ``None`` when nothing waits.
        reports_count: Reports that fell due and were not acknowledged yet.
    """

    next_due_at: datetime | None
    reports_count: int


class SandboxControl(Protocol):
    """The simulated network, as its owner sees it.

    Every call raises ``SandboxUnavailable`` when the sandbox cannot be reached, and ``SandboxSilent`` when it gave no answer.
    """

    async def pay(self, transfer: OutsideTransfer) -> Arrival:
        """Let somebody outside pay, and wait up to 10 s for the service's own word on it."""
        ...

    async def give_back(self, end_to_end_id: str, amount_cents: int | None, reason: str) -> Arrival:
        """Let the receiver of a transfer of ours return it.

        Args:
            end_to_end_id: Of the transfer.
            amount_cents: ``None`` is all of it.
            reason: MD06, BE08, FR01 or SL02.

        Raises:
            SandboxRefusal: ``unknown``: the network never settled such a transfer (book transfers among them).
        """
        ...

    async def list_keys(self) -> list[DirectoryEntry]:
        """The directory's entries: those that are always there, then at most 1000 of those that were added."""
        ...

    async def add_key(self, new: NewKey) -> DirectoryEntry:
        """Add an entry of a new outside account; a key that exists answers its entry as it is."""
        ...

    async def make_qr_code(self, new: NewQrCode) -> str:
        """Make a QR code of an outside merchant.

        Raises:
            SandboxRefusal: ``invalid``: the parts make no QR code; the message names the part.
        """
        ...

    async def read_faults(self) -> list[FaultRule]:
        """The rules, in the order in which they are tried, with what is left of their ``times``."""
        ...

    async def replace_faults(self, rules: Sequence[FaultRule]) -> None:
        """Replace all rules.

        Raises:
            SandboxRefusal: ``invalid``: more than 100 rules, or a reject code that the scheme does not have.
        """
        ...

    async def read_certificate_authority(self) -> str:
        """The certificate, as PEM, of the CA that stands behind the sandbox merchants' dynamic codes."""
        ...

    async def set_offset(self, offset: timedelta) -> Due:
        """Move the sandbox's clock.

        What falls due is reported before this answers. Moving back keeps what has settled, and brings every open deadline
        that was set at an instant now in the future nearer by as much.

        Args:
            offset: From the machine's time to the service's.
        """
        ...

    async def next_due(self) -> Due:
        """Say what comes next."""
        ...
