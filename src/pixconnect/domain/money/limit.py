"""Limits that an operator may set on a holder's outgoing transfers.

A day is a civil day in Sao Paulo, a night the hours from 20:00 to 06:00 there (pix-night rules of October 2021).
Transfers that failed or were cancelled do not count; those that were returned do.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import SAO_PAULO

_NIGHT_BEGINS_H = 20
_NIGHT_ENDS_H = 6


class Limits(Struct, frozen=True, kw_only=True):
    """``None`` is no limit."""

    transfer_cents: int | None = None
    day_cents: int | None = None
    night_cents: int | None = None

    @property
    def are_of_sums(self) -> bool:
        """Whether what was spent must be known to judge by them."""
        return self.day_cents is not None or self.night_cents is not None


class ApprovalRule(Struct, frozen=True, kw_only=True):
    """Which outgoing transfers of a holder an operator wants to approve before they leave; by default none."""

    above_cents: int | None = None
    new_payees: bool = False
    """To payees to whom nothing of the holder's has settled yet."""


class ApprovalReason(Struct, frozen=True, kw_only=True):
    """Why a transfer has to be approved."""

    is_above: bool
    is_new_payee: bool


def find_approval_reason(rule: ApprovalRule, amount_cents: int, *, is_known_payee: bool) -> ApprovalReason | None:
    """Why an operator has to approve a transfer; ``None`` if it may leave at once."""
    is_above = rule.above_cents is not None and amount_cents > rule.above_cents
    is_new_payee = rule.new_payees and not is_known_payee
    return ApprovalReason(is_above=is_above, is_new_payee=is_new_payee) if is_above or is_new_payee else None


class Spent(Struct, frozen=True, kw_only=True):
    """What counts against the limits already."""

    day_cents: int = 0
    night_cents: int = 0
    """Since the night began; 0 by day."""


def begin_of_day(now: datetime) -> datetime:
    # In UTC, because Python finds no instant equal to one of an hour that the civil clock skips.
    return now.astimezone(SAO_PAULO).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def begin_of_night(now: datetime) -> datetime | None:
    """When the present night began; ``None`` by day."""
    local = now.astimezone(SAO_PAULO)
    if _NIGHT_ENDS_H <= local.hour < _NIGHT_BEGINS_H:
        return None
    # After midnight it is still the night that began the evening before.
    evening = local if local.hour >= _NIGHT_BEGINS_H else local - timedelta(days=1)
    return evening.replace(hour=_NIGHT_BEGINS_H, minute=0, second=0, microsecond=0).astimezone(UTC)


def check_limits(limits: Limits, spent: Spent, amount_cents: int, *, is_night: bool) -> None:
    """Refuse a transfer that would exceed a limit; the message says which."""
    if limits.transfer_cents is not None and amount_cents > limits.transfer_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.transfer_cents} cents a transfer")
    if limits.day_cents is not None and spent.day_cents + amount_cents > limits.day_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.day_cents} cents a day")
    if is_night and limits.night_cents is not None and spent.night_cents + amount_cents > limits.night_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.night_cents} cents a night")


class Spending:
    """What counts against limits, carried from transfer to transfer of a batch."""

    def __init__(self, now: datetime) -> None:
        self.day_began_at = begin_of_day(now)
        self.night_began_at = begin_of_night(now)
        self._spent: dict[int, Spent] = {}

    def start(self, holder_id: int, spent: Spent) -> None:
        """Set what a holder with limits on sums had spent before the batch."""
        self._spent[holder_id] = spent

    def check(self, holder_id: int, limits: Limits, amount_cents: int) -> None:
        # Holders whose sums have no limits are not among them, and nothing is compared with their sums.
        spent = self._spent.get(holder_id, Spent())
        check_limits(limits, spent, amount_cents, is_night=self.night_began_at is not None)

    def count(self, holder_id: int, amount_cents: int) -> None:
        spent = self._spent.get(holder_id)
        if spent is not None:  # otherwise no sum is limited
            self._spent[holder_id] = Spent(
                day_cents=spent.day_cents + amount_cents,
                # By day nobody looks at the night's sum.
                night_cents=spent.night_cents + amount_cents,
            )
