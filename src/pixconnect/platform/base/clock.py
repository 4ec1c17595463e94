"""The clock as an argument; civil days of Sao Paulo; and token buckets.

The database's clock, plus the offset by which the sandbox has moved it, dates everything that is written: each batch reads both
under its locks. A process's own clock is only compared with it; see ``Reading``. Dates and deadlines follow ``now``; leases,
timeouts, tokens, signing keys, certificates, login limits and logs follow ``real_now`` or ``monotonic_s``.
"""

import math
import re
from collections.abc import Hashable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from pixconnect.platform.bounded_cache import BoundedCache

SKEW_MAX = timedelta(seconds=2)  # a process whose clock differs from the database's by more than this writes nothing
WARNED_AT: Final = (timedelta(days=1), timedelta(days=7), timedelta(days=30))
"""How long before its end a certificate is reported."""

_encode = msgspec.json.Encoder().encode


class Reading(Struct, frozen=True, kw_only=True):
    """The database's clock, as a process read it."""

    database_now: datetime  # real time, at some moment between ``asked_at`` and ``answered_at``
    asked_at: datetime
    answered_at: datetime  # like ``asked_at`` by the process's own clock
    offset: timedelta  # how far the sandbox had moved the service's time
    revision: int

    @property
    def skew(self) -> timedelta:
        """Return how far the process is ahead of the database, at least; below zero it is behind."""
        # The database answered at some moment in between, so a slow answer alone is no skew.
        if self.database_now < self.asked_at:
            return self.asked_at - self.database_now
        return min(self.answered_at - self.database_now, timedelta(0))


class Clock(Protocol):
    @property
    def offset(self) -> timedelta:
        """How far the sandbox has moved the service's time, and ``revision`` how often; zero in live mode."""
        ...

    @property
    def revision(self) -> int: ...

    @property
    def skew(self) -> timedelta: ...

    def set_offset(self, offset: timedelta, revision: int = 0) -> None:
        """Adopt the database's offset, unless a later one is known."""

    def take(self, reading: Reading) -> datetime:
        """Adopt a reading of the database's clock; returns the service's time at that moment."""
        ...

    def now(self) -> datetime:
        """The service's time by the machine's clock, for anything that is not written. Aware, UTC, whole microseconds."""
        ...

    def real_now(self) -> datetime:
        """The machine's time: aware, UTC, whole microseconds."""
        ...

    def monotonic_s(self) -> float: ...


# A batch has one instant, which its events and answers show.
@lru_cache(maxsize=256)
def format_instant(instant: datetime) -> str:
    """RFC 3339 in UTC with microseconds, such as ``2026-01-02T03:04:05.000006Z``."""
    # Thirty times faster than strftime, and every answer has several instants. A whole second comes without a fraction.
    encoded = _encode(instant.astimezone(UTC))[1:-1].decode()
    return encoded if instant.microsecond else f"{encoded[:-1]}.000000Z"


def format_milliseconds(instant: datetime) -> str:
    """The same cut to milliseconds, as the central bank's API shows instants: ``2026-01-02T03:04:05.000Z``."""
    return f"{format_instant(instant)[:23]}Z"


# Civil time of Sao Paulo, for limits, statements, the console and the command line. The zone and not an offset of three hours:
# until February 2019 summers were an hour ahead, and PostgreSQL groups figures by the same zone. A new law changes the zone's
# file (``tzdata``).

SAO_PAULO: Final = ZoneInfo("America/Sao_Paulo")


def format_local(instant: datetime) -> str:
    """Write an instant for people, in Sao Paulo: ``2026-01-02 00:04:05-03``."""
    return instant.astimezone(SAO_PAULO).strftime("%Y-%m-%d %H:%M:%S%z").removesuffix("00")


def to_day(instant: datetime) -> date:
    """Return the local day of an instant."""
    return instant.astimezone(SAO_PAULO).date()


_DAY_OF, _MONTH_OF = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])"
BRAZILIAN_DAY: Final = "|".join(
    [rf"{_DAY_OF}{mark}{_MONTH_OF}{mark}(?:[0-9]{{2}})?[0-9]{{2}}" for mark in ("/", "-", r"\.")] + [f"{_DAY_OF}/{_MONTH_OF}"]
)
_BRAZILIAN_DAY: Final = re.compile(rf"(?<![\w/-])(?<!\w\.)(?:{BRAZILIAN_DAY})(?![\w/]|[.-]\w)", re.ASCII)
_WEEKDAYS: Final = (
    *("monday|segunda", "tuesday|ter[cç]a", "wednesday|quarta", "thursday|quinta", "friday|sexta"),
    *("saturday|s[aá]bado", "sunday|domingo"),
)
WEEKDAY: Final = f"(?:{'|'.join(_WEEKDAYS)})(?:[ -]feira)?"
_MONTHS: Final = (
    *("jan(?:eiro|uary)?", "fev(?:ereiro)?|feb(?:ruary)?", "mar(?:[cç]o|ch)?", "a[bp]r(?:il)?", "maio?|may", "jun(?:ho|e)?"),
    *("jul(?:ho|y)?", "ago(?:sto)?|aug(?:ust)?", "set(?:embro)?|sept?(?:ember)?", "out(?:ubro)?|oct(?:ober)?"),
    *("nov(?:embro|ember)?", "dez(?:embro)?|dec(?:ember)?"),
)
_MONTH, _BEFORE, _BEHIND = "|".join(_MONTHS), r"(?<![\w,/-])(?<!\w\.)", r"(?![\w/-]|[.,]\d)"
NAMED_DAY: Final = re.compile(
    rf"{_BEFORE}(?:(?:(?:dia|the)\s+)?(?P<day>{_DAY_OF})(?:º|st|nd|rd|th)?(?:\s+(?:(?:de|of)\s+)?|[/-])(?P<month>{_MONTH})"
    rf"|(?P<month_first>{_MONTH})\.?\s+(?P<day_last>{_DAY_OF})(?:st|nd|rd|th)?)\b\.?"
    rf"(?:(?:,?\s+(?:(?:de|of)\s+)?|[/-])(?P<year>20[0-9]{{2}}))?{_BEHIND}"
    rf"|{_BEFORE}(?:(?:dia|day)\s+(?P<alone>{_DAY_OF})|(?:the\s+)?(?P<ordinal>{_DAY_OF})(?:st|nd|rd|th)){_BEHIND}",
    re.IGNORECASE,
)
"""29 de novembro de 2026, 29-nov, Nov 29th; dia 29, the 29th."""
_LEAP_DAY_WITHIN_YEARS: Final = 8
_WORD: Final = re.compile(
    r"\b(?:(today|hoje)|(yesterday|ontem)|(anteontem)|(7 ?days|7 ?dias)"
    rf"|(?:{'|'.join(f'({each})' for each in _WEEKDAYS)})(?:[ -]feira)?|(?:this |este )?(?:month|m[eê]s))\b",
    re.IGNORECASE,
)


def number_days(text: str, now: datetime) -> str:
    """The same with the days that name a month, or none, in numbers: 29/11; without a month, the last such day."""
    today = now.astimezone(SAO_PAULO).date()

    def write(found: re.Match[str]) -> str:
        if alone := found["alone"] or found["ordinal"]:
            return str(next(day for back in range(62) if (day := today - timedelta(days=back)).day == int(alone)))
        name, year = found["month"] or found["month_first"], found["year"]
        month = next(number for number, names in enumerate(_MONTHS, 1) if re.fullmatch(names, name, re.IGNORECASE))
        return f"{found['day'] or found['day_last']}/{month}" + (f"/{year}" if year else "")

    return NAMED_DAY.sub(write, text)


def as_days(text: str, now: datetime) -> str:
    """The same with the days in it as 2026-11-20: written as in Brazil or with a month's name, or words such as yesterday.

    A day without a year, 20/11, is the last such day, and so is a weekday.
    """
    today = now.astimezone(SAO_PAULO).date()

    def write_day(found: re.Match[str]) -> str:
        day, month, *years = map(int, re.split("[/.-]", found[0]))
        for year in () if years else range(today.year, today.year - _LEAP_DAY_WITHIN_YEARS - 1, -1):
            with suppress(ValueError):
                if (last := date(year, month, day)) <= today:
                    return f"{last}"
        year = years[0] if years else today.year
        return f"{year if year > 99 else 2000 + year}-{month:02}-{day:02}"

    def write_days(word: re.Match[str]) -> str:
        match word.lastindex:
            case None | 4:
                return f"{today - timedelta(days=6) if word[4] else today.replace(day=1)}..{today}"
            case 1 | 2 | 3 as days:
                return f"{today - timedelta(days=days - 1)}"
            case weekday:
                return f"{today - timedelta(days=(today.weekday() - (weekday - 5)) % 7)}"

    return _WORD.sub(write_days, _BRAZILIAN_DAY.sub(write_day, number_days(text, now)))


def begin_of_day(now: datetime) -> datetime:
    """Return the local midnight at which the day of an instant began, in UTC."""
    # In UTC, because Python finds no instant equal to one of an hour that the civil clock skips.
    return now.astimezone(SAO_PAULO).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def end_of_day(now: datetime) -> datetime:
    """Return the next local midnight, in UTC."""
    return datetime.combine(to_day(now) + timedelta(days=1), time(0), SAO_PAULO).astimezone(UTC)


# Rate limits by token buckets.

BUCKETS_MAX: Final = 20_000


class RatePolicy(Struct, frozen=True, kw_only=True):
    name: str
    tokens_max: int
    refill_per_s: float
    overdraft_max: int | None = None
    """How many more may be spent than there are, because a cost may be known only afterwards; ``None`` is ``tokens_max``."""

    @property
    def window_s(self) -> int:
        """Return how long an empty bucket takes to fill."""
        return math.ceil(self.tokens_max / self.refill_per_s)

    @property
    def refill_a_minute(self) -> int:
        return round(self.refill_per_s * 60)

    def seconds_until(self, tokens: float, left: float) -> int:
        """Return whole seconds until this many tokens exist, if none are spent or added."""
        return max(1, math.ceil((tokens - left) / self.refill_per_s))


class TokenBucket:
    __slots__ = ("_level", "_policy", "_read_at_s")

    def __init__(self, policy: RatePolicy, now_s: float) -> None:
        self._policy = policy
        self._level = float(policy.tokens_max)
        self._read_at_s = now_s

    def read(self, now_s: float) -> float:
        self.add((now_s - self._read_at_s) * self._policy.refill_per_s)
        self._read_at_s = now_s
        return self._level

    def spend(self, tokens: float) -> None:
        policy = self._policy
        overdraft_max = policy.tokens_max if policy.overdraft_max is None else policy.overdraft_max
        self._level = max(self._level - tokens, -float(overdraft_max))

    def add(self, tokens: float) -> None:
        self._level = min(self._level + tokens, float(self._policy.tokens_max))

    def seconds_until(self, tokens: float) -> int:
        """Return whole seconds until this many tokens exist, if none are spent or added."""
        return self._policy.seconds_until(tokens, self._level)


class TokenBuckets:
    """A bucket for each of many keys, full at first."""

    def __init__(self) -> None:
        # The least recently used is evicted: it is the likeliest to be full again, as a new one is.
        self._buckets = BoundedCache[Hashable, TokenBucket](BUCKETS_MAX)

    def find(self, policy: RatePolicy, whose: Hashable, now_s: float) -> TokenBucket:
        key = policy.name, whose
        if (bucket := self._buckets.recall(key)) is None:
            bucket = TokenBucket(policy, now_s)
            self._buckets.keep(key, bucket)
        return bucket


def describe_end(ends_at: datetime, now: datetime) -> str | None:
    """Describe how soon a certificate expires; ``None`` while that is far."""
    left = ends_at - now
    if left <= timedelta(0):
        return "has ended"
    step = next((step for step in WARNED_AT if left <= step), None)
    return None if step is None else f"ends within {step.days} {'day' if step.days == 1 else 'days'}"
