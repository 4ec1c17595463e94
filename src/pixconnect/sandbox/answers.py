"""What is answered to an order, and what is reported of it."""

from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.domain import reject_code
from pixconnect.domain.rail import (
    NotTaken,
    QueryAnswer,
    Rejected,
    RejectedReport,
    Report,
    Settled,
    SettledReport,
    Taken,
)
from pixconnect.sandbox.behaviour import Behaviour
from pixconnect.sandbox.tables import KnownOrder, MerchantClaim, NewOrder

OrderAnswer = Taken | Rejected | NotTaken | None
"""``None`` is an answer that was lost on its way."""

_TAKEN: Final = Taken()
_NOT_TAKEN: Final = NotTaken()


def answer_order(
    order_id: str, how: Behaviour, arriving: dict[str, NewOrder], taken: set[str], *, is_late: bool
) -> OrderAnswer:
    """The answer to one order; ``taken`` loses what was answered, so that a second of one id is a duplicate."""
    if how.is_refused:
        return _NOT_TAKEN
    if not how.arrives:
        return None
    if order_id in taken:
        taken.remove(order_id)
        if not how.is_answered:
            return None
        code = arriving[order_id].code
        if how.is_rejected_at_once and code is not None:
            return Rejected(code=code, reason=reject_code.explain(code))
        return _TAKEN
    code = "FF08" if is_late else "ED05"
    return Rejected(code=code, reason=reject_code.explain(code))


def judge_claims(
    arriving: dict[str, NewOrder], claims: dict[str, str], codes: dict[str, MerchantClaim]
) -> tuple[dict[str, NewOrder], dict[str, str]]:
    """Reject orders for merchants' codes that are paid (BE17) or cost another amount (AM09); the rest pay them."""
    judged: dict[str, NewOrder] = {}
    paid: dict[str, str] = {}
    for order_id, order in arriving.items():
        claim = codes.get(claims.get(order_id, ""))
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
    """What a query says of an order whose time has come."""
    if order.code is None:
        return Settled(settled_at=order.due_at)
    return Rejected(code=order.code, reason=reject_code.explain(order.code))


def outcome_report(order_id: str, due_at: datetime, code: str | None) -> SettledReport | RejectedReport:
    """What is told of an order when its time comes."""
    if code is None:
        return SettledReport(report_id=order_id, id=order_id, settled_at=due_at)
    return RejectedReport(report_id=order_id, id=order_id, code=code, reason=reject_code.explain(code))


def redate(report: Report, due_at: datetime) -> Report:
    """A report from outside says when it came, which the clock may have brought nearer."""
    if isinstance(report, SettledReport | RejectedReport):
        return report
    return structs.replace(report, reported_at=due_at)
