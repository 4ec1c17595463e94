"""Limits that an operator may set on a holder's outgoing transfers.

A day is a civil day in Sao Paulo; a night is the hours that the arrangement's rules define, with one of two hours as its
beginning. A lower limit acts at once, and a higher one waits: an attacker who has taken over an account gains nothing by
raising it. Transfers that failed or were cancelled do not count; returned ones do.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, begin_of_day, end_of_day


class Limits(Struct, frozen=True):
    """``None`` is no limit; a higher number, or none, is a higher limit."""

    transfer_cents: int | None = None
    day_cents: int | None = None
    night_cents: int | None = None
    night_begins_late: bool = False

    @property
    def are_of_sums(self) -> bool:
        """Whether a check by them needs the spent sums."""
        return self.day_cents is not None or self.night_cents is not None


NO_LIMITS: Final = Limits()
LIMIT_COLUMNS: Final[tuple[LiteralString, ...]] = tuple(
    name.replace("_cents", "_limit_cents")  # pyright: ignore[reportAssignmentType]  names of fields of ours
    for name in Limits.__struct_fields__
)
"""A holder's columns, and fields of its record, in the order of the fields here."""


class ApprovalRule(Struct, frozen=True):
    """The outgoing transfers of a holder that need an operator's approval; by default none."""

    above_cents: int | None = None
    new_payees: bool = False  # to payees that none of the holder's transfers has reached


class ApprovalReason(Struct, frozen=True, kw_only=True):
    is_above: bool
    is_new_payee: bool


def find_approval_reason(rule: ApprovalRule, amount_cents: int, *, is_known_payee: bool) -> ApprovalReason | None:
    """Return why an operator has to approve a transfer; ``None`` if it may leave at once."""
    is_above = rule.above_cents is not None and amount_cents > rule.above_cents
    is_new_payee = rule.new_payees and not is_known_payee
    return ApprovalReason(is_above=is_above, is_new_payee=is_new_payee) if is_above or is_new_payee else None


def write_limits(limits: Limits) -> Mapping[str, str | int]:
    """Return limits as the contents of a proposal; a missing limit is none."""
    return {name: int(value) for name, value in msgspec.structs.asdict(limits).items() if value is not None}


def read_limits(contents: Mapping[str, str | int]) -> Limits:
    return msgspec.convert(contents, Limits, strict=False)


def find_raise_wait(now: datetime) -> timedelta:
    """Return how long the arrangement delays higher limits."""
    return ARRANGEMENT.find("limit_raise_earliest", now).duration


class Spent(Struct, frozen=True, kw_only=True):
    """The sums that already count against the limits."""

    day_cents: int = 0
    night_cents: int = 0  # since the night began; 0 by day


def cut_limits(before: Limits, wanted: Limits) -> Limits:
    """Return the stricter of both in each part: the share of a change that acts at once."""
    stricter: Iterable[Any] = map(find_stricter, msgspec.structs.astuple(before), msgspec.structs.astuple(wanted))
    return Limits(*stricter)


def find_stricter(before: int | None, wanted: int | None) -> int | None:
    return min((cents for cents in (before, wanted) if cents is not None), default=None)


def read_night_begin(hour: int, now: datetime) -> bool:
    """Whether a night that begins at this hour is the later one; ``BadRequest`` if none may begin then."""
    hours = [find_night_begin(is_late=is_late, now=now) for is_late in (False, True)]
    if hour not in hours:
        raise errors.BadRequest(f"night_begins: must be {hours[0]} or {hours[1]}, the hour in Sao Paulo")
    return hour == hours[1]


def find_night_begin(*, is_late: bool, now: datetime) -> int:
    """The hour in Sao Paulo at which a night begins."""
    return ARRANGEMENT.find("night_begins_late" if is_late else "night_begins", now).read_value()


def begin_of_night(now: datetime, *, is_late: bool = False) -> datetime | None:
    """When the present night began, at the earlier or the later hour; ``None`` by day."""
    local = now.astimezone(SAO_PAULO)
    begins_h = find_night_begin(is_late=is_late, now=now)
    if ARRANGEMENT.find("night_ends", now).read_value() <= local.hour < begins_h:
        return None
    # After midnight it is still the night that began the evening before.
    evening = local if local.hour >= begins_h else local - timedelta(days=1)
    return evening.replace(hour=begins_h, minute=0, second=0, microsecond=0).astimezone(UTC)


def end_of_night(now: datetime) -> datetime:
    local, ends_h = now.astimezone(SAO_PAULO), ARRANGEMENT.find("night_ends", now).read_value()
    morning = local if local.hour < ends_h else local + timedelta(days=1)
    return morning.replace(hour=ends_h, minute=0, second=0, microsecond=0).astimezone(UTC)


def check_limits(limits: Limits, spent: Spent, amount_cents: int, *, is_night: bool) -> None:
    """Refuse a transfer that would exceed a limit; the message names it."""
    if limits.transfer_cents is not None and amount_cents > limits.transfer_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.transfer_cents} cents a transfer")
    if limits.day_cents is not None and spent.day_cents + amount_cents > limits.day_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.day_cents} cents a day")
    if is_night and limits.night_cents is not None and spent.night_cents + amount_cents > limits.night_cents:
        raise errors.LimitExceeded(f"amount: above the holder's limit of {limits.night_cents} cents a night")


Interval = tuple[datetime, datetime]  # from an instant until before another one


class Spending:
    """The sums that count against limits, carried from transfer to transfer of a batch."""

    def __init__(self, now: datetime) -> None:
        # Days and nights have an end too: after its clock was moved back, a sandbox has transfers of later days.
        self.day: Interval = begin_of_day(now), end_of_day(now)
        self._now = now
        self._spent: dict[int, Spent] = {}

    def find_night(self, limits: Limits) -> Interval | None:
        """Return the present night of a holder with these limits; ``None`` by day."""
        began_at = begin_of_night(self._now, is_late=limits.night_begins_late)
        return None if began_at is None else (began_at, end_of_night(self._now))

    def start(self, holder_id: int, spent: Spent) -> None:
        """Set the sums of a holder with limits before the batch."""
        self._spent[holder_id] = spent

    def check(self, holder_id: int, limits: Limits, amount_cents: int) -> None:
        # Holders whose sums have no limits are not among them, and nothing is compared with their sums.
        spent = self._spent.get(holder_id, Spent())
        is_night = limits.night_cents is not None and self.find_night(limits) is not None
        check_limits(limits, spent, amount_cents, is_night=is_night)

    def count(self, holder_id: int, amount_cents: int) -> None:
        if (spent := self._spent.get(holder_id)) is not None:
            self._spent[holder_id] = Spent(
                day_cents=spent.day_cents + amount_cents,
                # By day the night's sum is not used.
                night_cents=spent.night_cents + amount_cents,
            )
