"""Whether reserved money may still leave, judged when an operator approves an order and when an order that waited starts.

A holder may be blocked, disabled or limited after an order was accepted, and a Pix may be contested before its refund leaves.
"""

from __future__ import annotations

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.money.limit import Limits, Spending
from pixconnect.domain.money.refund import AUTOMATIC_PREFIX, Refund
from pixconnect.domain.money.transfer import Transfer


class Standing(Struct, frozen=True, kw_only=True):
    """What an operator and the institution let a holder do now."""

    holder_id: int
    may_withdraw: bool
    is_disabled: bool
    deficit_cents: int
    blocks_count: int
    has_uncovered_block: bool
    """The institution has blocked more than is blocked here."""
    limits: Limits


def find_hold(
    ordered: Transfer | Refund, standing: Standing, spending: Spending, *, is_contested: bool = False
) -> str | None:
    """The reason why an accepted transfer or refund may not leave now.

    Args:
        ordered: The transfer or refund, whose money is reserved.
        standing: Its holder's.
        spending: What else the holder sent on the day on which it was accepted.
        is_contested: Of a refund, whether its original is contested and undecided.
    """
    if is_contested:
        return "somebody contests the Pix that it returns, and its institution has not decided"
    # The money of a payment that was not accepted is not the holder's.
    if isinstance(ordered, Refund) and (ordered.external_id or "").startswith(AUTOMATIC_PREFIX):
        return None
    if not standing.may_withdraw:
        return "the holder may not withdraw"
    if standing.is_disabled:
        return "the holder is disabled"
    if standing.deficit_cents:
        return f"the holder owes {standing.deficit_cents} cents that its institution took"
    if standing.has_uncovered_block:
        return "the institution has blocked more of the holder's money than is blocked here"
    if isinstance(ordered, Transfer):
        try:
            spending.check(standing.holder_id, standing.limits, ordered.amount_cents)
        except errors.LimitExceeded as exceeded:
            return str(exceeded)
    return None
