"""What the sandbox takes and answers."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from pixconnect_client.enums import FaultOperation, InfractionStatus, MovementStatus, PaymentStatus, RefundStatus


class OutsidePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody outside; what is left out is made up."""

    name: str | None = None
    """The account's owner."""
    tax_id: str | None = None
    """CPF or CNPJ, without a mask."""


class Payment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a payment from outside."""

    end_to_end_id: str
    """Its name on the network, and that of your incoming transfer."""
    amount: int
    """The amount paid. Cents."""
    status: PaymentStatus
    """CONFIRMED once the money is durably in your account; ERROR if the service refused it or the network cancelled it."""
    code: str | None = None
    """Why it was refused, as the scheme says it."""
    reason: str | None = None
    """The same as a sentence."""


class ReturnOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a return."""

    return_identification: str
    """Its name on the network, and that of your incoming refund."""
    original_end_to_end_id: str
    """The returned Pix."""
    amount: int
    """The amount given back. Cents."""
    status: RefundStatus
    """RETURNED once the money is durably in your account."""


class Deposit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Money put into your account."""

    id: int
    amount: int
    """How much was put in. Cents."""
    create_timestamp: datetime
    """When it was put in."""


class SandboxInfraction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An infraction as the sandbox, your institution, has it."""

    infraction_id: str
    """Its name, under which the sandbox is told of a decision."""
    end_to_end_id: str
    """The Pix."""
    amount: int
    """How much is contested. Cents."""
    wanted: int
    """How much is to be blocked, once there is so much. Cents."""
    held: int
    """How much of that is blocked. Cents."""
    status: InfractionStatus
    respond_by: datetime
    """Until when you can answer."""


class MovementOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Money that the institution has moved."""

    id: str
    """The institution's name of the item in its own statement."""
    amount: int
    """How much was moved. Cents."""
    status: MovementStatus
    """POSTED once it is durably in your account."""


class QrCode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A QR code of an outside merchant."""

    emv: str
    """The text of the QR code."""


class FaultMatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The messages that a rule concerns; a field that you leave out matches all."""

    key: str | None = None
    """The payee's Pix key."""
    amount: int | None = None
    """The message's amount."""
    operation: FaultOperation | None = None
    """The kind of message."""


class FaultRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way in which the network misbehaves."""

    effect: str
    """What happens.

    ``reject:<SPI code>``, ``delay:<ms>``, ``no_answer``, ``lost``, ``duplicate_answer``, ``out_of_order``, ``unavailable``,
    ``two_steps:<ms>``, ``cancel:<SPI code>`` or ``cancel:<SPI code>:<ms>``, ``fee:<cents>``, ``dated_back:<s>``,
    ``suspect:release`` or ``suspect:return``, or either with ``:<ms>``; at faces also
    ``html:before``, ``html:after``, ``too_many:<s>``, ``token_ended``, ``lag:<s>``, ``page_shift``.
    """
    match: FaultMatch | None = None
    """To which messages."""
    probability: float | None = None
    """To what share of them, from 0 to 1."""
    times: int | None = None
    """To how many of them at most; counts down."""


class SandboxClock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The time of the service and the sandbox."""

    now: datetime
    """The time by which charges expire and retries are due."""


class FaultRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the network misbehaves, for all holders."""

    rules: list[FaultRule]
    """The first that matches wins."""


class SandboxHolder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new account, and the client that may use it."""

    holder_id: int
    client_id: str
    client_secret: str
    key: str
    """A Pix key of the account."""
