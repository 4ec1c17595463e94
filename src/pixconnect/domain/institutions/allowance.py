"""What operators allow to leave over an account at an institution: off at first, and raised by two people."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.money import AMOUNT_MAX_CENTS

RAISED_AFTER: Final = timedelta(hours=1)
"""From a proposal to allow more until another operator can confirm it."""


class Allowance(Struct, frozen=True, kw_only=True):
    institution_id: int
    refunds_day_cents: int
    """What may be returned in a day of Sao Paulo; 0 is nothing."""
    allowed_by: str | None = None
    """The operator who set it last."""


def check_cents(cents: int) -> None:
    if not 0 <= cents <= AMOUNT_MAX_CENTS:
        raise errors.BadRequest(f"refunds: must be from 0 to {AMOUNT_MAX_CENTS} cents a day")


def check_refund_day(amount_cents: int, left_cents: int) -> None:
    """Refuse a refund above what may still be returned over its account today."""
    if amount_cents > left_cents:
        raise errors.LimitExceeded(
            f"amount: refunds over this holder's account at its institution are allowed up to {left_cents} cents more today"
        )
