"""The sandbox's acts as the holder's institution: movements, and decisions on suspect credits."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pixconnect.doors.api.envelope import Amount, clamp_cents
from pixconnect.doors.api.operation import Nothing, Request, Section, Services
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import END_TO_END_ID, NONE
from pixconnect.features.sandbox.api import Payment, show_arrival
from pixconnect.features.sandbox.rules import MadeMovementKind, Verdict
from pixconnect.features.sandbox.service import sandbox as sandbox_usecases
from pixconnect.kernel.rules.kept_report import DESCRIPTION_LENGTH_MAX


class MovementRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money that the institution, or a person in its app, moves on your account without you."""

    kind: MadeMovementKind
    """The kind; `by_hand` is a person in the institution's app."""
    direction: Literal["IN", "OUT"]
    """IN raises your balance, OUT lowers it."""
    amount: Amount
    """How much is moved."""
    text: Annotated[str, Meta(min_length=1, max_length=DESCRIPTION_LENGTH_MAX)] | None = None
    """The institution's text beside it."""


class MovementOutcome(Struct, frozen=True, kw_only=True):
    """Money that the institution has moved."""

    id: str
    """The institution's name of the item in its own statement."""
    amount: Amount
    """How much was moved."""
    status: Literal["PROCESSING", "POSTED"]
    """POSTED once it is durably in your account."""


async def move(services: Services, request: Request[None, Nothing, MovementRequest]) -> MovementOutcome:
    """Make the institution move money.

    A fee, a wire, a boleto, or an action in its app: no transfer, but a line of your statement, and the event
    `movement.posted`. It takes at most your available balance, unless the rail takes no refusals: then you owe the missing
    part.
    """
    body = request.body
    moved = await sandbox_usecases.move(
        services.context, request.caller, body.kind, body.direction, clamp_cents(body.amount), body.text
    )
    return MovementOutcome(
        id=moved.id, amount=moved.amount_cents, status="POSTED" if moved.status == "CONFIRMED" else "PROCESSING"
    )


class VerdictRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The institution's decision by hand on a held payment."""

    decision: Verdict
    """Release it, so that it is yours and pays its charge; or return it to its payer."""


async def judge_credit(services: Services, request: Request[str, Nothing, VerdictRequest]) -> Payment:
    """Release or return a suspect credit by hand.

    The events are `transfer.in.confirmed`, and of a charge `qrcode.approved`; or `transfer.in.error`.
    """
    arrival = await sandbox_usecases.judge_credit(services.context, request.caller, request.parameter, request.body.decision)
    return show_arrival(arrival)


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
SECTIONS: Final = (
    Section(title="Sandbox", operations=(
        Row("sandbox_judge_payment", "POST", "/sandbox/v1/payments/{endToEndId}/decide", "any",
            END_TO_END_ID, Nothing, VerdictRequest, Payment, judge_credit),
        Row("sandbox_move", "POST", "/sandbox/v1/movements", "any",
            NONE, Nothing, MovementRequest, MovementOutcome, move,
            rules=("AMOUNT_OUT_OF_RANGE", "HOLDER_BLOCKED", "INSUFFICIENT_FUNDS")),
    )),
)
# fmt: on
