"""Limits that an operator may set on a holder's outgoing transfers.

A day is a civil day in Sao Paulo, a night the hours from 20:00 to 06:00 there (pix-night rules of October 2021). What failed
or was cancelled does not count; what was returned does.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

from msgspec import Struct

from pixconnect.domain import errors

SAO_PAULO: Final = timezone(timedelta(hours=-3))
"""Brazil has had no summer time since 2019, so a fixed offset needs no time zone files."""

_NIGHT_BEGINS_H = 20
_NIGHT_ENDS_H = 6


class Limits(Struct, frozen=True, kw_only=True):
    """What an operator has set; ``None`` is no limit.

    Attributes:
        transfer_cents: One transfer at most.
        day_cents: One day's transfers at most.
        night_cents: One night's transfers at most.
    """

    transfer_cents: int | None = None
    day_cents: int | None = None
    night_cents: int | None = None

    @property
    def are_of_sums(self) -> bool:
        """Whether what was spent must be known to judge by them."""
        return self.day_cents is not None or self.night_cents is not None


class Spent(Struct, frozen=True, kw_only=True):
    """What counts against the limits already.

    Attributes:
        day_cents: Since the day began.
        night_cents: Since the night began; 0 by day.
    """

    day_cents: int = 0
    night_cents: int = 0


def begin_of_day(now: datetime) -> datetime:
    """When the civil day of this instant began."""
    return now.astimezone(SAO_PAULO).replace(hour=0, minute=0, second=0, microsecond=0)


def begin_of_night(now: datetime) -> datetime | None:
    """When the night of this instant began; ``None`` by day."""
    local = now.astimezone(SAO_PAULO)
    if _NIGHT_ENDS_H <= local.hour < _NIGHT_BEGINS_H:
        return None
    evening = local if local.hour >= _NIGHT_BEGINS_H else local - timedelta(days=1)
    return evening.replace(hour=_NIGHT_BEGINS_H, minute=0, second=0, microsecond=0)


def check_limits(limits: Limits, spent: Spent, amount_cents: int, *, is_night: bool) -> None:
    """Refuse a transfer that would exceed a limit.

    Raises:
        LimitExceeded: The message says which limit.
    """
    if limits.transfer_cents is not None and amount_cents > limits.transfer_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.transfer_cents} cents a transfer")
    if limits.day_cents is not None and spent.day_cents + amount_cents > limits.day_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.day_cents} cents a day")
    if is_night and limits.night_cents is not None and spent.night_cents + amount_cents > limits.night_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.night_cents} cents a night")


class Spending:
    """What counts against limits, carried from transfer to transfer of a batch.

    Args:
        now: Service time.
    """

    def __init__(self, now: datetime) -> None:
        self.day_began_at = begin_of_day(now)
        self.night_began_at = begin_of_night(now)
        self._spent: dict[int, Spent] = {}

    def start(self, holder_id: int, spent: Spent) -> None:
        """What was spent before the batch, where a holder's sums are limited."""
        self._spent[holder_id] = spent

    def check(self, holder_id: int, limits: Limits, amount_cents: int) -> None:
        """Refuse a transfer that would exceed a limit; errors as in ``check_limits``."""
        spent = self._spent.get(holder_id, Spent())
        check_limits(limits, spent, amount_cents, is_night=self.night_began_at is not None)

    def count(self, holder_id: int, amount_cents: int) -> None:
        """One more transfer counts."""
        spent = self._spent.get(holder_id)
        if spent is not None:  # otherwise no sum is limited
            self._spent[holder_id] = Spent(
                day_cents=spent.day_cents + amount_cents,
                # By day nobody looks at the night's sum.
                night_cents=spent.night_cents + amount_cents,
            )
