"""What a list of the console is to show: filters with operators, read from the texts that people write and addresses hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.listing import Cursor
from pixconnect.domain.frame.money import AMOUNT_MAX_CENTS

SAO_PAULO: Final = ZoneInfo("America/Sao_Paulo")
TEXT_LENGTH_MAX: Final = 255
_NUMBER_MAX: Final = 2**53 - 1
_ID_LENGTH_MAX: Final = 16

_AMOUNT: Final = re.compile(r"(?:R\$\s*)?(\d{1,3}(?:\.\d{3})+|\d{1,10})(?:[,.](\d{2}))?", re.ASCII)
_INSTANT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_OPERATOR: Final = re.compile(r"(>=|<=|>|<|=)?\s*(.*)", re.DOTALL)
_CURSOR: Final = re.compile(r"(\d{1,16})-(\d{1,16})-(\d{1,16})-(\d{1,16})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)

Value = TypeVar("Value", int, datetime)


class Wanted(Struct, frozen=True, kw_only=True):
    """What things must have; ``None`` and nothing is anything. Bounds are included."""

    statuses: tuple[str, ...] = ()
    amount_min_cents: int | None = None
    amount_max_cents: int | None = None
    initial_at: datetime | None = None
    final_at: datetime | None = None
    direction: Literal["IN", "OUT"] | None = None
    counterparty: str | None = None
    """A part of the name, or the whole tax id or key."""
    event_types: tuple[str, ...] = ()
    endpoint_id: int | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether it asks for something that no index knows."""
        asked = (self.amount_min_cents, self.amount_max_cents, self.direction, self.counterparty)
        return any(value is not None for value in asked)


def read_id(text: str) -> int | None:
    """An id as addresses have it; ``None`` for whatever no id can be."""
    # Counted before it is converted: Python refuses to read thousands of digits.
    is_number = len(text) <= _ID_LENGTH_MAX and text.isascii() and text.isdecimal()
    return number if is_number and 1 <= (number := int(text)) <= _NUMBER_MAX else None


def read_amounts(text: str) -> tuple[int | None, int | None]:
    """Read ``>=100,00``, ``<5``, ``10..20`` or ``7,50``: the least and the greatest amount in cents, both included."""
    return _read_range("amount", text, _read_amount, lambda cents: cents + 1, lambda cents: cents - 1)


def read_instants(text: str) -> tuple[datetime | None, datetime | None]:
    """Read ``>=2026-11-03``, ``2026-11-01..2026-11-03 12:00`` or ``2026-11-03``: a day is a whole one of Sao Paulo."""
    return _read_range("instant", text, _read_instant, lambda instant: instant + _TICK, lambda instant: instant - _TICK)


def _read_range(
    name: str,
    text: str,
    read: Callable[[str, str], tuple[Value, Value]],
    later: Callable[[Value], Value],
    earlier: Callable[[Value], Value],
) -> tuple[Value | None, Value | None]:
    if ".." in text:
        first, _, last = text.partition("..")
        low, high = read(name, first)[0], read(name, last)[1]
        if low > high:
            raise errors.BadRequest(f"{name}: the range ends before it begins")
        return low, high
    found = _OPERATOR.fullmatch(text.strip())
    operator, value = ("", text) if found is None else found.groups(default="")
    low, high = read(name, value)
    ranges: dict[str, tuple[Value | None, Value | None]] = {
        ">=": (low, None),
        ">": (later(high), None),
        "<=": (None, high),
        "<": (None, earlier(low)),
    }
    return ranges.get(operator, (low, high))


def _read_amount(name: str, text: str) -> tuple[int, int]:
    found = _AMOUNT.fullmatch(text.strip())
    cents = -1 if found is None else int(found[1].replace(".", "")) * 100 + int(found[2] or 0)
    if not 0 <= cents <= AMOUNT_MAX_CENTS:
        raise errors.BadRequest(f"{name}: write 100 or 100,00, with >=, >, <=, < or =, or a range as 10..20")
    return cents, cents


def _read_instant(name: str, text: str) -> tuple[datetime, datetime]:
    text = text.strip()
    try:
        instant = datetime.fromisoformat(text) if _INSTANT.fullmatch(text) else None
    except ValueError:
        instant = None
    if instant is None or not 1970 <= instant.year <= 9998:
        raise errors.BadRequest(
            f"{name}: write 2026-11-03 or 2026-11-03 12:00, with >=, >, <=, < or =, or a range as a..b"
        )
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=SAO_PAULO)
    # What is not written is all of it: of a day its hours, of a minute its seconds.
    length = {10: timedelta(days=1), 16: timedelta(minutes=1), 19: timedelta(seconds=1)}.get(len(text), _TICK)
    return instant.astimezone(UTC), instant.astimezone(UTC) + length - _TICK


def write_list_cursor(cursor: Cursor) -> str:
    """A cursor for an address. It is no secret: whose things are shown is never decided by it."""
    return f"{(cursor.created_at - _EPOCH) // _TICK}-{cursor.id}-{cursor.position}-{cursor.total_count}"


def read_list_cursor(text: str) -> Cursor:
    found = _CURSOR.fullmatch(text)
    numbers = [] if found is None else [int(number) for number in found.groups()]
    is_bounded = numbers and max(numbers[1:]) <= _NUMBER_MAX and numbers[0] <= (_LATEST - _EPOCH) // _TICK
    if not is_bounded:
        raise errors.BadRequest("after: this is no place in a list")
    microseconds, last_id, position, total_count = numbers
    created_at = _EPOCH + timedelta(microseconds=microseconds)
    return Cursor(created_at=created_at, id=last_id, position=position, total_count=total_count)
