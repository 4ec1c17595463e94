"""Automatic returns of received Pix without a charge, if the account's option ``give_back`` is *always*."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.kernel.rules.refund import NewRefund, RefundRequest, plan_automatic_refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

State = Literal["waiting", "made", "not_made"]
REASON: Final = "MD06"
AGAIN_AFTER: Final = timedelta(minutes=1)
_AGAIN_AFTER_MAX: Final = timedelta(hours=1)
_PASSING: Final = (
    errors.RefundInfractionOpen,
    errors.HolderBlocked,
    errors.LimitExceeded,
    errors.InsufficientFunds,
)
"""Temporary refusals: a contest is decided, a holder or a day is allowed more, money comes in."""
_TEXT_LENGTH_MAX: Final = 1000


class GiveBack(Struct, frozen=True, kw_only=True):
    transfer_id: int
    holder_id: int
    institution_id: int
    state: State
    reason: str | None = None
    """Why it was not made, so that it stays credited, or why it cannot be made now; ``None`` before the first try."""
    due_at: datetime
    created_at: datetime


class UnmatchedCredit(Struct, frozen=True, kw_only=True):
    """A received Pix that pays no charge."""

    transfer_id: int
    holder_id: int
    end_to_end_id: str
    txid: str | None
    amount_cents: int
    returned_cents: int
    returning_cents: int
    settled_at: datetime
    given_back: State | None
    """``None`` if the account returns nothing automatically."""
    reason: str | None


def gives_back(account: InstitutionAccount) -> bool:
    return account.options.get("give_back", "never") == "always"


def plan_giving_back(received: Transfer, refund_id: int, return_id: str) -> NewRefund:
    """Plan the refund of all of it, without a caller's request: one per Pix, however often it is begun."""
    request = RefundRequest(end_to_end_id=received.end_to_end_id, amount_cents=received.amount_cents, reason=REASON)
    return plan_automatic_refund(received, request, refund_id, return_id)


def leave(waiting: GiveBack, reason: str) -> GiveBack:
    """Give up a return: the payment stays credited."""
    return structs.replace(waiting, state="not_made", reason=reason[:_TEXT_LENGTH_MAX])


def wait_longer(waiting: GiveBack, now: datetime) -> GiveBack:
    """Postpone a return, longer with its age."""
    after = min(max(now - waiting.created_at, AGAIN_AFTER), _AGAIN_AFTER_MAX)
    return structs.replace(waiting, due_at=now + after)


def judge_refusal(waiting: GiveBack, refusal: errors.RuleBroken, now: datetime) -> GiveBack:
    """Postpone a return if the reason may pass, otherwise give it up."""
    if isinstance(refusal, _PASSING):
        return wait_longer(structs.replace(waiting, reason=str(refusal)[:_TEXT_LENGTH_MAX]), now)
    return leave(waiting, str(refusal))
