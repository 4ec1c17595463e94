"""The port to the simulated network: acts of outside parties, faults, time. Live mode has none."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from types import NoneType
from typing import Annotated, Any, Final, Generic, Literal, Protocol, TypeVar

from msgspec import Meta, Struct, field

from pixconnect.kernel.rules.holder import KeyType, Party
from pixconnect.kernel.rules.money import AmountCents
from pixconnect.kernel.rules.rail import DirectoryEntry, InitiationType
from pixconnect.platform.base import errors

Operation = Literal[
    "lookup", "resolve", "submit", "query", "refund", "return", "payment",
    "face_token", "face_read", "face_write", "callback",
]  # fmt: skip
Effect = Annotated[
    str,
    Meta(
        pattern=r"^(reject:[A-Z0-9]{4}|delay:[0-9]{1,9}|no_answer|lost|duplicate_answer|out_of_order|unavailable"
        r"|two_steps:[0-9]{1,9}|cancel:[A-Z0-9]{4}(:[0-9]{1,9})?|fee:[1-9][0-9]{0,8}|dated_back:[0-9]{1,9}"
        r"|suspect:(release|return)(:[0-9]{1,9})?"
        r"|html:(before|after)|too_many:[0-9]{1,9}|token_ended|lag:[0-9]{1,9}|page_shift)$",
        description="One of reject:<SPI code>, delay:<ms>, no_answer, lost, duplicate_answer, out_of_order, unavailable, "
        "two_steps:<ms>, cancel:<SPI code> or cancel:<SPI code>:<ms>, fee:<cents>, dated_back:<s>, "
        "suspect:release or suspect:return, or either with :<ms>; "
        "at faces also html:before, html:after, too_many:<s>, token_ended, lag:<s>, page_shift",
    ),
]
MadeMovementKind = Literal["fee", "wire", "boleto", "by_hand", "reversal", "judicial", "other"]
"""Kinds that can be made here: an account has its opening balance once, at its institution."""
Verdict = Literal["release", "return"]  # the fate of a suspect payment
ArrivalStatus = Literal["PROCESSING", "CONFIRMED", "ERROR"]

RULES_MAX = 100

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class SandboxUnavailable(Exception):  # noqa: N818  it is not our error
    """The sandbox cannot be reached, or a rule simulates that. Nothing was done, unless it is ``SandboxSilent``."""

    summary = "the sandbox cannot be reached"


class SandboxKeyRefused(SandboxUnavailable):
    """The sandbox was started with another secret key. Nothing was done."""

    summary = "the sandbox refuses our key: start it with the service's secret keys, the previous one too"


class SandboxSilent(SandboxUnavailable):
    """The sandbox did not answer: it may have acted, or may act later."""


class SandboxRefusal(Exception):  # noqa: N818  the sandbox refused the request
    """The sandbox understood and refused."""

    def __init__(self, reason: Literal["invalid", "unknown"], message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OutsidePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payer at another institution; the sandbox invents missing members."""

    name: str | None = None
    tax_id: str | None = None


class PaymentTerms(Struct, frozen=True, kw_only=True):
    """What a payer at another institution adds to a payment."""

    payer: OutsidePayer = OutsidePayer()
    payer_message: str | None = None
    suspect: Verdict | None = None  # if set, it is held as suspect, and this is its outcome by time


NO_TERMS: Final = PaymentTerms()


class OutsideTransfer(PaymentTerms, frozen=True, kw_only=True):
    """Money that a payer at another institution sends to one of our holders."""

    credit_party: Party
    amount_cents: AmountCents
    txid: str | None = None
    initiation_type: InitiationType = "KEY"


class OutsideReturn(Struct, frozen=True, kw_only=True):
    """Money that the payee of a transfer returns."""

    end_to_end_id: str
    amount_cents: AmountCents | None  # ``None`` is all of it
    reason: str


class OutsideMovement(Struct, frozen=True, kw_only=True):
    """Money that the institution, or a person in its app, moves on a holder's account."""

    party: Party
    kind: MadeMovementKind
    direction: Literal["IN", "OUT"]
    amount_cents: AmountCents
    description: str | None = None


class OutsideVerdict(Struct, frozen=True, kw_only=True):
    """The institution's decision by hand on a suspect payment."""

    end_to_end_id: str
    verdict: Verdict


class Arrival(Struct, frozen=True, kw_only=True):
    """How a payment or return from outside ended."""

    id: str  # the ``end_to_end_id`` of a payment, the ``return_id`` of a return, the item of a movement
    amount_cents: int
    # CONFIRMED only after the service has acknowledged it; PROCESSING when that did not come in time.
    status: ArrivalStatus
    code: str | None = None


class NewKey(Struct, frozen=True, kw_only=True):
    """A directory entry to make, with a new account at another institution. The sandbox invents members that are ``None``."""

    key_type: KeyType
    key: str | None = None
    name: str | None = None
    tax_id: str | None = None  # ``None`` uses the key if that is a tax id


class NewQrCode(Struct, frozen=True, kw_only=True):
    """A QR code of an outside merchant to be made."""

    kind: Literal["static", "dynamic"]  # a dynamic one has a location and an amount, and is paid once
    # ``None`` is the sandbox's own merchant. Not looked up: a code may name a key that does not exist.
    key: str | None = None
    amount_cents: AmountCents | None = None
    txid: str | None = None  # ``None`` is none (static) or made up (dynamic)


# These two are sent unchanged: the OpenAPI document describes their fields.


class FaultMatch(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The messages that a rule matches; missing fields match all."""

    key: str | None = None
    """The payee's Pix key."""
    amount_cents: AmountCents | None = field(default=None, name="amount")
    """The message's amount (``amount`` on the wire)."""
    operation: Operation | None = None
    """The kind of message."""


class FaultRule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One way in which the network misbehaves."""

    effect: Effect
    """The effect."""
    match: FaultMatch = FaultMatch()
    """To which messages."""
    probability: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The affected share of them, from 0 to 1."""
    times: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    """To how many of them at most; counts down."""


class Message(Struct, frozen=True, kw_only=True):
    """A rule's possible subject: a message of the network, a request at a face, or a callback of one."""

    operation: Operation
    id: str
    key: str | None = None
    amount_cents: int | None = None


class FaultAnswer(Struct, frozen=True, kw_only=True):
    effect: str | None  # the effect of the first matching rule; ``None`` without one


class Due(Struct, frozen=True, kw_only=True):
    """The sandbox's next deadline, if it has one, and the reports that wait for the service."""

    next_due_at: datetime | None
    reports_count: int


class ControlCall(Struct, Generic[Asked, Answered], frozen=True, kw_only=True):
    """One call of the sandbox: its request and its answer."""

    name: str  # the last part of its path, too
    asked: type[Asked]
    answer: type[Answered]
    refused: type[errors.PixConnectError] = errors.BadRequest  # the caller's error when the sandbox refuses it
    only_reads: bool = False
    timeout_s: float = 10.0


class CallRow(Struct, frozen=True, kw_only=True):
    """A call that the simulated network answers with a feature."""

    call: ControlCall[Any, Any]
    do: Callable[[Any, Any], Awaitable[Any]]  # gets the network's ``Outside`` and what is asked


class LookupQuestion(Struct, frozen=True):
    key: str
    payer_tax_id: str
    end_to_end_id: str


class LookupAnswers(Struct, frozen=True):
    """The directory's answers to a batch of keys; a key in neither list has no entry."""

    entries: Sequence[DirectoryEntry]
    alone: Sequence[str]
    """Keys to query one by one: a fault rule applies to them, and their delay must not affect the others."""


class Failure(Struct, frozen=True):
    """The body of an answer with status 4xx or 5xx."""

    error: str  # ``invalid``, ``unknown``, ``unavailable``, ``unauthorized`` or ``internal``
    message: str


# The control without the calls of features: `features/sandbox/network/application.py` names what answers each.

# A payment from outside. Longer than the 10 s that the sandbox waits for the service's acknowledgement, as for a return.
PAY: Final = ControlCall(name="payments", asked=OutsideTransfer, answer=Arrival, timeout_s=20.0)
JUDGE_CREDIT: Final = ControlCall(name="verdicts", asked=OutsideVerdict, answer=Arrival, timeout_s=20.0)
GIVE_BACK: Final = ControlCall(
    name="returns", asked=OutsideReturn, answer=Arrival, refused=errors.OriginalNotRefundable, timeout_s=20.0
)
MOVE: Final = ControlCall(name="movements", asked=OutsideMovement, answer=Arrival, timeout_s=20.0)
# The permanent entries, then at most 1000 added ones.
LIST_KEYS: Final = ControlCall(name="keys", asked=NoneType, answer=list[DirectoryEntry], only_reads=True)
# Add an entry of a new outside account, or return the existing one.
ADD_KEY: Final = ControlCall(name="new-key", asked=NewKey, answer=DirectoryEntry, refused=errors.InvalidPixKey)
MAKE_QR_CODE: Final = ControlCall(name="qrcodes", asked=NewQrCode, answer=str)
# The rules in order of evaluation, with their remaining `times`.
READ_FAULTS: Final = ControlCall(name="faults", asked=NoneType, answer=list[FaultRule], only_reads=True)
# Replace all rules, or refuse more than 100, or an unknown reject code.
REPLACE_FAULTS: Final = ControlCall(name="new-faults", asked=list[FaultRule], answer=list[FaultRule])
# A rule's effect on a request at a face, or on a callback of one; counts the rule down.
DRAW_FAULT: Final = ControlCall(name="drawn-fault", asked=Message, answer=FaultAnswer)
# The PEM certificate of the CA behind the sandbox merchants' dynamic codes.
READ_AUTHORITY: Final = ControlCall(name="authority", asked=NoneType, answer=str, only_reads=True)
# Move the sandbox's clock to an offset, after queueing what is due. Moving back keeps settlements; open deadlines set at an
# instant that is now in the future move nearer by the same time.
SET_OFFSET: Final = ControlCall(name="clock", asked=timedelta, answer=Due)
READ_DUE: Final = ControlCall(name="due", asked=NoneType, answer=Due, only_reads=True)


class SandboxControl(Protocol):
    """Controls the simulated network."""

    async def call(self, what: ControlCall[Asked, Answered], asked: Asked) -> Answered:
        """Make one call.

        Raises:
            SandboxRefusal: The sandbox understood and refused.
            SandboxSilent: It did not answer: it may have done it.
            SandboxUnavailable: It cannot be reached; nothing was done.
        """
        ...
