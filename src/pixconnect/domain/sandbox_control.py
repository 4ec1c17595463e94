"""The port to the simulated network: what people outside do, what fails, what time it is. Live mode has none."""

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
        pattern=r"^(reject:[A-Z0-9]{4}|delay:[0-9]{1,9}|no_answer|lost|duplicate_answer|out_of_order|unavailable"
        r"|two_steps:[0-9]{1,9}|cancel:[A-Z0-9]{4}(:[0-9]{1,9})?)$",
        description="reject:<SPI code>, delay:<ms>, no_answer, lost, duplicate_answer, out_of_order, unavailable, "
        "two_steps:<ms>, cancel:<SPI code> or cancel:<SPI code>:<ms>",
    ),
]
ArrivalStatus = Literal["PROCESSING", "CONFIRMED", "ERROR"]

RULES_MAX = 100


class SandboxUnavailable(Exception):  # noqa: N818  it is not our error
    """The sandbox cannot be reached, or a rule says so. Nothing was done, unless it is ``SandboxSilent``."""


class SandboxSilent(SandboxUnavailable):
    """The sandbox was asked and gave no answer: it may have acted, or may act later."""


class SandboxRefusal(Exception):  # noqa: N818  the sandbox judged what it was asked
    """The sandbox understood and refused."""

    def __init__(self, reason: Literal["invalid", "unknown"], message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OutsidePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who pays from outside; what is left out is made up."""

    name: str | None = None
    tax_id: str | None = None


class OutsideTransfer(Struct, frozen=True, kw_only=True):
    """Money that somebody outside sends to one of our holders."""

    credit_party: Party
    amount_cents: AmountCents
    txid: str | None = None
    initiation_type: InitiationType = "KEY"
    payer: OutsidePayer = field(default_factory=OutsidePayer)


class Arrival(Struct, frozen=True, kw_only=True):
    """How a payment or return from outside ended."""

    id: str
    """The ``end_to_end_id`` of a payment, the ``return_id`` of a return."""
    amount_cents: int
    status: ArrivalStatus
    """CONFIRMED only after the service has acknowledged it; PROCESSING when that did not come in time."""
    code: str | None = None


class NewKey(Struct, frozen=True, kw_only=True):
    """A directory entry to be made, with a new outside account behind it; what is ``None`` is made up."""

    key_type: KeyType
    key: str | None = None
    name: str | None = None
    tax_id: str | None = None
    """``None`` takes the key where that is a tax id."""


class NewQrCode(Struct, frozen=True, kw_only=True):
    """A QR code of an outside merchant to be made."""

    kind: Literal["static", "dynamic"]
    """A dynamic one has a location and an amount, and is paid once."""
    key: str | None = None
    """``None`` is the sandbox's own merchant. Not looked up: a code may name a key that does not exist."""
    amount_cents: AmountCents | None = None
    txid: str | None = None
    """``None`` is none (static) or made up (dynamic)."""


# These two are on the wire as they are: the OpenAPI document says what stands under their fields.


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
    """The sandbox's next deadline, if it has one, and the reports that wait for the service."""

    next_due_at: datetime | None
    reports_count: int


class SandboxControl(Protocol):
    """Drives the simulated network.

    Every call raises ``SandboxUnavailable`` if the sandbox cannot be reached, and ``SandboxSilent`` if it did not
    answer.
    """

    async def pay(self, transfer: OutsideTransfer) -> Arrival:
        """Let somebody outside pay, and wait up to 10 s for the service's acknowledgement."""
        ...

    async def give_back(self, end_to_end_id: str, amount_cents: int | None, reason: str) -> Arrival:
        """Let the receiver of a transfer return all or a part; ``unknown`` if the network never settled it."""
        ...

    async def list_keys(self) -> list[DirectoryEntry]:
        """The entries that are always there, then at most 1000 of those that were added."""
        ...

    async def add_key(self, new: NewKey) -> DirectoryEntry:
        """Add an entry of a new outside account, or return the entry of a key that exists."""
        ...

    async def make_qr_code(self, new: NewQrCode) -> str:
        """Make a QR code of an outside merchant, or refuse as ``invalid`` and name the part."""
        ...

    async def read_faults(self) -> list[FaultRule]:
        """The rules, in the order in which they are tried, with what is left of their ``times``."""
        ...

    async def replace_faults(self, rules: Sequence[FaultRule]) -> None:
        """Replace all rules, or refuse as ``invalid`` more than 100, or an unknown reject code."""
        ...

    async def read_certificate_authority(self) -> str:
        """The PEM certificate of the CA behind the sandbox merchants' dynamic codes."""
        ...

    async def set_offset(self, offset: timedelta) -> Due:
        """Move the sandbox's clock, and report first what falls due.

        Moving back keeps what has settled. Open deadlines set at an instant now in the future come nearer by as much.
        """
        ...

    async def next_due(self) -> Due: ...
