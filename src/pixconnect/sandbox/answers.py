"""What the network answers to an order, and what it reports of it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import structs

from pixconnect.domain.money import reject_code
from pixconnect.domain.money.block_report import BlockReport, InfractionReport
from pixconnect.domain.money.rail import (
    Acknowledgement,
    CreditAccepted,
    CreditCancelled,
    CreditHeld,
    CreditReport,
    MovementReport,
    NotTaken,
    QueryAnswer,
    Rejected,
    RejectedReport,
    Report,
    ReturnReport,
    Settled,
    SettledReport,
    Taken,
)
from pixconnect.sandbox.behaviour import Behaviour
from pixconnect.sandbox.outbox import Pending
from pixconnect.sandbox.tables import Acknowledged, KnownOrder, MerchantClaim, NewOrder

ArrivalReport = CreditReport | ReturnReport | MovementReport
OrderAnswer = Taken | Rejected | NotTaken | None
"""``None`` is an answer that was lost on its way."""

_decode_report = msgspec.json.Decoder(Report).decode
_TAKEN: Final = Taken()
_NOT_TAKEN: Final = NotTaken()


def answer_order(
    order_id: str, how: Behaviour, arriving: dict[str, NewOrder], taken: set[str], *, is_late: bool
) -> OrderAnswer:
    """Answer one order, and remove it from ``taken``."""
    if how.is_refused:
        return _NOT_TAKEN
    # Lost on its way in: the network has nothing to answer.
    if not how.arrives:
        return None
    if order_id in taken:
        # Removed, so that a second order with this id in the same group is answered as a duplicate.
        taken.remove(order_id)
        if not how.is_answered:
            return None
        code = arriving[order_id].code
        if how.is_rejected_at_once and code is not None:
            return Rejected(code=code, reason=reject_code.explain(code))
        return _TAKEN
    # Not taken now, although it arrived: it is too old, or known already.
    code = "FF08" if is_late else "ED05"
    return Rejected(code=code, reason=reject_code.explain(code))


def judge_claims(
    arriving: dict[str, NewOrder], claims: dict[str, str], codes: dict[str, MerchantClaim]
) -> tuple[dict[str, NewOrder], dict[str, str]]:
    """Reject orders for codes that are paid (BE17) or ask for another amount (AM09); return the orders and payers."""
    judged: dict[str, NewOrder] = {}
    paid: dict[str, str] = {}
    for order_id, order in arriving.items():
        claim = codes.get(claims.get(order_id, ""))
        # An order that is rejected anyway leaves the code to others.
        if claim is None or order.code is not None:
            judged[order_id] = order
        elif claim.txid in paid or claim.paid_by not in (None, order_id):
            judged[order_id] = structs.replace(order, code="BE17")
        elif claim.amount_cents != order.amount_cents:
            judged[order_id] = structs.replace(order, code="AM09")
        else:
            judged[order_id] = order
            paid[claim.txid] = order_id
    return judged, paid


def final_answer(order: KnownOrder) -> QueryAnswer:
    if order.code is None:
        return Settled(settled_at=order.due_at)
    return Rejected(code=order.code, reason=reject_code.explain(order.code))


def outcome_report(order_id: str, due_at: datetime, code: str | None) -> SettledReport | RejectedReport:
    if code is None:
        return SettledReport(report_id=order_id, id=order_id, settled_at=due_at)
    return RejectedReport(report_id=order_id, id=order_id, code=code, reason=reject_code.explain(code))


def split_credit(credit: CreditReport, how: Behaviour) -> list[CreditReport]:
    """Make the two reports of a payment that the network accepts or holds first and settles later, in this order."""
    fields = structs.asdict(credit)
    held_for = timedelta(milliseconds=how.ends_after_ms or 0)
    accepted = CreditHeld(**fields, until=credit.reported_at + held_for) if how.is_suspect else CreditAccepted(**fields)
    end = credit if how.cancel_code is None else CreditCancelled(**fields, code=how.cancel_code)
    first, last = (end, accepted) if how.is_early else (accepted, end)
    return [structs.replace(first, report_id=f"{credit.end_to_end_id}/1"), last]


def arrival_id_of(report: ArrivalReport) -> str:
    """The name that an arrival has."""
    match report:
        case CreditReport():
            return report.end_to_end_id
        case ReturnReport():
            return report.return_id
        case MovementReport():
            return report.item_id


def read_acknowledgement(report: ArrivalReport, refusal_code: str | None) -> Acknowledged:
    arrival_id = arrival_id_of(report)
    is_first = report.report_id != arrival_id
    # A cancelled payment has failed, whatever the service says to that.
    code = report.code if isinstance(report, CreditCancelled) else refusal_code
    goes_on = is_first and refusal_code is None
    # Heard of after its end, it was credited or refused at once, and never held.
    is_held = goes_on and isinstance(report, CreditHeld)
    return Acknowledged(arrival_id, code, is_first=is_first, goes_on=goes_on, is_held=is_held)


def redate(report: Report, due_at: datetime) -> Report:
    """Date a report from outside by its deadline, which may have come nearer when the clock was moved back."""
    # An order's outcome is made from its deadline, and needs no new date.
    if isinstance(report, SettledReport | RejectedReport):
        return report
    if isinstance(report, MovementReport):
        return structs.replace(report, settled_at=due_at)
    if isinstance(report, BlockReport | InfractionReport):
        return structs.replace(report, told_at=due_at)
    if isinstance(report, CreditHeld):
        report = structs.replace(report, until=report.until + (due_at - report.reported_at))
    return structs.replace(report, reported_at=due_at)


def sort_acknowledged(
    acknowledgements: Sequence[Acknowledgement], find: Callable[[str], Report | None]
) -> tuple[dict[str, str], list[str], dict[str, Acknowledged]]:
    """Of orders, by their reports, of contests and of what comes from outside, what was acknowledged first.

    Args:
        acknowledgements: What the service says.
        find: Knows what was reported.
    """
    orders: dict[str, str] = {}
    contested: list[str] = []
    arrivals: dict[str, Acknowledged] = {}
    for acknowledgement in acknowledgements:
        report_id = acknowledgement.report_id
        report = find(report_id)
        if isinstance(report, SettledReport | RejectedReport):
            orders[report_id] = report.id
        elif isinstance(report, InfractionReport):
            contested.append(report_id)
        elif isinstance(report, ArrivalReport):
            arrivals.setdefault(report_id, read_acknowledgement(report, acknowledgement.refusal_code))
    return orders, contested, arrivals


def make_pending(report: str, due_at: datetime) -> Pending:
    """What is told of what comes from outside, by its deadline; the report is JSON."""
    return Pending(redate(_decode_report(report), due_at))
