"""Requests and responses of the sandbox."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from pixconnect_client.enums import FaultOperation, InfractionStatus, MovementStatus, PaymentStatus, RefundStatus


class OutsidePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payer at another institution. Missing values are generated."""

    name: str | None = None
    """The account's owner."""
    tax_id: str | None = None
    """CPF or CNPJ, without a mask."""


class Payment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a simulated payment."""

    end_to_end_id: str
    """Its end-to-end id, also that of your incoming transfer."""
    amount: int
    """The amount paid. Cents."""
    status: PaymentStatus
    """CONFIRMED when the money is in your account; ERROR if the service rejected it or the network cancelled it."""
    code: str | None = None
    """The scheme's reject code."""
    reason: str | None = None
    """The reason as a sentence."""


class ReturnOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a return."""

    return_identification: str
    """Its return id, also that of your incoming refund."""
    original_end_to_end_id: str
    """The returned Pix."""
    amount: int
    """The returned amount. Cents."""
    status: RefundStatus
    """RETURNED when the money is in your account."""


class Deposit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deposit."""

    id: int
    amount: int
    """The deposited amount. Cents."""
    create_timestamp: datetime
    """When it was deposited."""


class SandboxInfraction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An infraction in the sandbox, which acts as your institution."""

    infraction_id: str
    """Its id in the sandbox, for later decisions."""
    end_to_end_id: str
    """The Pix."""
    amount: int
    """The contested amount. Cents."""
    wanted: int
    """The amount to block when available. Cents."""
    held: int
    """The amount blocked so far. Cents."""
    status: InfractionStatus
    respond_by: datetime
    """Deadline of your answer."""


class MovementOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A movement by the institution."""

    id: str
    """Id of the item in the institution's statement."""
    amount: int
    """The amount. Cents."""
    status: MovementStatus
    """POSTED when it is booked on your account."""


class QrCode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A QR code of an outside merchant."""

    emv: str
    """The text of the QR code."""


class FaultMatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The messages that a rule matches. A missing field matches all."""

    key: str | None = None
    """The payee's Pix key."""
    amount: int | None = None
    """The message's amount."""
    operation: FaultOperation | None = None
    """The kind of message."""


class FaultRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault rule."""

    effect: str
    """The effect.

    ``reject:<SPI code>``, ``delay:<ms>``, ``no_answer``, ``lost``, ``duplicate_answer``, ``out_of_order``, ``unavailable``,
    ``two_steps:<ms>``, ``cancel:<SPI code>`` or ``cancel:<SPI code>:<ms>``, ``fee:<cents>``, ``dated_back:<s>``,
    ``suspect:release`` or ``suspect:return``, or either with ``:<ms>``; for simulated institutions also
    ``html:before``, ``html:after``, ``too_many:<s>``, ``token_ended``, ``lag:<s>``, ``page_shift``.
    """
    match: FaultMatch | None = None
    """The messages that it matches."""
    probability: float | None = None
    """The share of matching messages, from 0 to 1."""
    times: int | None = None
    """The number of remaining applications; counts down."""


class SandboxClock(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The time of the service and the sandbox."""

    now: datetime
    """The clock that controls expiry and retries."""


class FaultRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fault rules, for all holders."""

    rules: list[FaultRule]
    """The first matching rule applies."""


class SandboxHolder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new holder and its client."""

    holder_id: int
    client_id: str
    client_secret: str
    key: str
    """A Pix key of the account."""
