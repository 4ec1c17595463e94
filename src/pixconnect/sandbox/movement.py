"""What the institution moves by itself: made by hand, or a fee of a Pix, which is written with the Pix.

A fee of a payment waits for the payment, because the service may refuse that. One of a transfer falls due with it: how that
ends is decided when it is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.rail import MovementReport, Order
from pixconnect.domain.simulation.sandbox_control import OutsideMovement
from pixconnect.sandbox.behaviour import Behaviour
from pixconnect.sandbox.outbox import Pending
from pixconnect.sandbox.tables import NewArrival, NewOrder

FEE_TEXT: Final = "Tarifa Pix"


class NewFee(Struct, frozen=True):
    """A fee that a rule has taken of a Pix."""

    party: Party
    amount_cents: int


def find_fees(orders: Sequence[Order], behaviours: Sequence[Behaviour]) -> dict[str, NewFee]:
    return {
        order.end_to_end_id: NewFee(order.debit_party, how.fee_cents)
        for order, how in zip(orders, behaviours, strict=True)
        if how.fee_cents is not None
    }


def fee_id(name: str) -> str:
    """The item of a Pix's fee: it has one at most."""
    return f"M{name[1:]}"


def make_fee(fee: NewFee, name: str, number: int, at: datetime, *, waits: bool) -> tuple[NewArrival, Pending]:
    report = MovementReport(
        report_id=fee_id(name),
        item_id=fee_id(name),
        party=fee.party,
        kind="fee",
        direction="OUT",
        amount_cents=fee.amount_cents,
        end_to_end_id=name,
        description=FEE_TEXT,
        settled_at=at,
    )
    return make_arrival(report, number, at, waits_for=name if waits else None), Pending(report)


def make_report(asked: OutsideMovement, item_id: str, at: datetime) -> MovementReport:
    return MovementReport(
        report_id=item_id,
        item_id=item_id,
        party=asked.party,
        kind=asked.kind,
        direction=asked.direction,
        amount_cents=asked.amount_cents,
        end_to_end_id=None,
        description=asked.description,
        settled_at=at,
    )


def make_arrival(report: MovementReport, number: int, at: datetime, waits_for: str | None = None) -> NewArrival:
    return NewArrival(
        number=number,
        id=report.item_id,
        kind="movement_in" if report.direction == "IN" else "movement_out",
        original_id=None,
        amount_cents=report.amount_cents,
        key=None,
        report=msgspec.json.encode(report).decode(),
        taken_at=at,
        due_at=at,
        code=None,
        is_due=False,
        is_open=True,
        waits_for=waits_for,
    )


def make_fees_of_orders(
    fees: Mapping[str, NewFee], orders: Mapping[str, NewOrder], now: datetime, numbers: Iterator[int]
) -> list[tuple[NewArrival, Pending]]:
    """The fees of those orders that will settle, due as they are."""
    return [
        make_fee(fee, name, next(numbers), now + timedelta(milliseconds=orders[name].delay_ms), waits=False)
        for name, fee in fees.items()
        if name in orders and orders[name].code is None
    ]
