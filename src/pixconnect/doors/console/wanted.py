"""A console's list: its filters, parsed from typed texts and from addresses, and its pages."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, Literal, TypeVar

from msgspec import Struct, structs

from pixconnect.kernel.rules.listing import NUMBER_MAX, Span, read_cursor
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, show_reais
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import BRAZILIAN_DAY, NAMED_DAY, SAO_PAULO, WEEKDAY, as_days, number_days

PAGE_SIZE_MAX: Final = 200
LISTED: Final = b"console"  # cursors of these lists contain this, and not the filters, which people may change between pages
TEXT_LENGTH_MAX: Final = 255
_ID_LENGTH_MAX: Final = 16
_DAY_LENGTH: Final = len("2026-11-03")

_REAIS: Final = "[0-9]{1,3}(?:\\.[0-9]{3})+|[0-9]{1,10}"
# Pages that write amounts by a locale put a no-break space behind the sign.
_AMOUNT: Final = re.compile(rf"(?:R\$[\s\u00a0]*)?({_REAIS})(?:[,.](\d{{1,2}}))?(?:\s+reais)?", re.ASCII | re.IGNORECASE)
_ENGLISH: Final = re.compile(r"(?<![\w.,/-])([0-9]{1,3}(?:,[0-9]{3})+)\.([0-9]{1,2})(?![\w.,/-])", re.ASCII)
_DOLLAR: Final = re.compile(r"(?<![\w$])\$(?=\s*[0-9])")
_HOUR: Final = "(?:[01]?[0-9]|2[0-3])"
_TIME: Final = re.compile(
    rf"(?:^|,?\s+)(?:(?:(?:[àa]s|at)\s+)?({_HOUR}(?::[0-5][0-9](?::[0-5][0-9])?(?:\s*[ap]m)?|h[0-5][0-9]|\s*[ap]m))"
    rf"|(?:[àa]s|at)\s+({_HOUR}h))(?=,?\s|$)",
    re.IGNORECASE,
)
_INSTANT: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?", re.ASCII)
_DAY: Final = f"(?:[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}|{BRAZILIAN_DAY})"
_WHEN: Final = rf"{_DAY}(?:\.\.{_DAY})?|today|hoje|yesterday|ontem|anteontem|7 ?days|7 ?dias|{WEEKDAY}"
_OF: Final = r"(?:(?:de|do|da|em|no|na|dia|of|from|on|last)\s+){0,2}"
_MONEY: Final = rf"(?:R\$\s*(?:{_REAIS})(?:[,.][0-9]{{1,2}})?|(?:{_REAIS})[,.][0-9]{{1,2}})(?:\s+reais)?|(?:{_REAIS})\s+reais"
# Longer digits are a part of an id or of a CPF.
_WHOLE: Final = r"(?:[1-9][0-9]?[.,][0-9]{3}|[1-9][0-9]{0,4})(?!\s*(?:days|dias)\b)"
# A whole number may also be an id or part of a name. "Month" is part of a name unless it follows the amount.
_KNOWN_AMOUNT, _KNOWN_WHOLE = (
    re.compile(
        rf"(?:(?P<first>\S.*?)\s+)??(?:{_OF}(?P<when_first>{_WHEN})\s+)?(?P<amount>{amount})"
        rf"(?:\s+{_OF}(?P<when>{_WHEN}|month|m[eê]s))?(?:\s+{_OF}(?P<last>\S.*?)(?:\s+{_OF}(?P<when_last>{_WHEN}))?)?",
        re.IGNORECASE,
    )
    for amount in (_MONEY, _WHOLE)
)
_KNOWN_DAY: Final = re.compile(
    rf"(?P<when_alone>{_WHEN})|(?P<when_first>{_WHEN})\s+(?P<last>\S.*)|(?P<first>\S.*?)\s+{_OF}(?P<when_last>{_WHEN})",
    re.IGNORECASE,
)
# As people name an order: pedido 1001, order no. 1001, #1001.
_ORDER: Final = re.compile(
    r"(?:(?:pedido|encomenda|cobran[cç]a|order|charge|invoice|n[uú]mero|number|id)(?:\s+n[º°or]\.?)?[\s#:]+|#\s*)(\S*[0-9]\S*)"
    rf"(?:\s+{_OF}(?P<when>{_WHEN}))?",
    re.IGNORECASE,
)
_DIGITS: Final = re.compile("[1-9][0-9]{0,8}")
# As receipts show a CPF, ***.982.247-**, or what of it is readable.
_MIDDLE: Final = re.compile(r"(?:[*xX]{3})?\.?([0-9]{3})\.?([0-9]{3})-?(?:[*xX]{2})?")
_TAX_ID: Final = re.compile(r"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}|[0-9A-Z.]{8,10}/?[0-9A-Z]{4}-?[0-9]{2}")
# A part of an order's name, or of the network's, nearly always has a digit, and a person's name none.
_PART: Final = re.compile(r"(?=.*[0-9])[0-9A-Za-z_-]{4,35}")
# Read on the telephone, some parts have none.
_PART_OR_NAME: Final = re.compile(r"[A-Za-z_-]{4,35}")
_NAME: Final = re.compile(r"(?=.*[^\W\d_]{2}).{3,255}")
_OPERATOR: Final = re.compile(r"(>=|<=|>|<|=)?\s*(.*)", re.DOTALL)
_TICK: Final = timedelta(microseconds=1)
_APART: Final = timedelta(days=3)
_FIRST: Final = datetime(1, 1, 5, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 27, tzinfo=UTC)

Item = TypeVar("Item")
Value = TypeVar("Value", int, datetime)


class Wanted(Struct, frozen=True, kw_only=True):
    """Conditions of a list; ``None`` and empty mean any. Bounds are included."""

    statuses: tuple[str, ...] = ()
    amount_min_cents: int | None = None
    amount_max_cents: int | None = None
    initial_at: datetime | None = None
    final_at: datetime | None = None
    paid_between: tuple[datetime | None, datetime | None] | None = None
    """When a transfer or refund settled; the instants above then bound when it was recorded."""
    direction: Literal["IN", "OUT"] | None = None
    counterparty: str | None = None
    """A part of the name, or the whole tax id or key."""
    name_part: str | None = None
    """A part of an external id, a name of the network or a charge's txid, in any case; or a CPF's six middle digits."""
    event_types: tuple[str, ...] = ()
    endpoint_id: int | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether it filters by a field without an index."""
        asked = (self.amount_min_cents, self.amount_max_cents, self.direction, self.counterparty, self.name_part)
        return any(value is not None for value in (*asked, self.paid_between))

    def by_payment(self) -> "Wanted":
        """Read its instants as those of the settlement, which is recorded at most three days earlier or later."""
        oldest, newest = asked = (self.initial_at, self.final_at)
        if asked == (None, None):
            return self
        initial_at = oldest and max(oldest, _FIRST) - _APART
        return structs.replace(self, initial_at=initial_at, final_at=newest and min(newest, _LAST) + _APART, paid_between=asked)


class Browsed(Struct, Generic[Item], frozen=True, kw_only=True):
    items: Sequence[Item]
    total_count: int | None = None  # ``None`` for a search, which has no count
    next: str | None = None  # where the next page begins; ``None`` at the end
    searched_to: datetime | None = None  # how far back the search went, if not to the end: ``next`` continues there


def check_names(what: str, asked: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the chosen values, or all; each once."""
    for name in asked:
        if name not in known:
            raise errors.BadRequest(f"{what}: must be one of {', '.join(known)}")
    return tuple(name for name in known if not asked or name in asked)


def check_span(wanted: Wanted, after: str | None, page_size: int) -> Span:
    if not 1 <= page_size <= PAGE_SIZE_MAX:
        raise errors.BadRequest(f"page_size: must be from 1 to {PAGE_SIZE_MAX}")
    for field, text in (("counterparty", wanted.counterparty), ("name_part", wanted.name_part)):
        if text is not None and not 1 <= len(text) <= TEXT_LENGTH_MAX:
            raise errors.BadRequest(f"{field}: must have 1 to {TEXT_LENGTH_MAX} characters")
        if text is not None and not text.isprintable():
            raise errors.BadRequest(f"{field}: must be printable")
    return Span(
        page_size=page_size,
        initial_at=wanted.initial_at,
        final_at=wanted.final_at,
        after=None if after is None else read_cursor(after, LISTED),
    )


def read_id(text: str) -> int | None:
    """An id in an address; ``None`` for any other text."""
    # Counted before it is converted: Python refuses to read thousands of digits.
    is_number = len(text) <= _ID_LENGTH_MAX and text.isascii() and text.isdecimal()
    return number if is_number and 1 <= (number := int(text)) <= NUMBER_MAX else None


def read_amounts(text: str) -> tuple[int | None, int | None]:
    """Read ``>=100,00``, ``<5``, ``10..20`` or ``7,50``: the least and the greatest amount in cents, both included."""
    return _read_range("amount", text, _read_amount, lambda cents: cents + 1, lambda cents: cents - 1)


def read_one_amount(name: str, text: str) -> int:
    """Read ``7,50`` in cents; a range, as filters take it, would be another sum than was meant."""
    cents = _read_cents(text)
    if cents is None:
        raise errors.BadRequest(f"{name}: must be one amount, such as 100 or 100,00")
    return cents


def read_instants(text: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Read ``>=2026-11-03``, ``01/11/2026..2026-11-03 12:00`` or ``yesterday``: a day is a whole one of Sao Paulo."""
    return _read_range(
        "instant", as_days(text, now), _read_instant, lambda instant: instant + _TICK, lambda instant: instant - _TICK
    )


def read_known(text: str, now: datetime) -> dict[str, str]:
    """A search text as filters of a list; empty for a text that no filter takes.

    Example:
        >>> now = datetime(2026, 11, 21, 12, tzinfo=UTC)
        >>> read_known("R$ 123,45 yesterday", now)
        {'amount': 'R$ 123,45', 'when': '2026-11-20'}
        >>> read_known("529.982.247-25", now), read_known("4a1B2c3D4e5", now), read_known("Padaria Central", now)
        ({'who': '529.982.247-25'}, {'part': '4a1B2c3D4e5'}, {'who': 'Padaria Central'})
        >>> read_known("25,50 20/11 Maria", now), read_known("***.982.247-** 20/11", now)
        ({'amount': '25,50', 'when': '2026-11-20', 'who': 'Maria'}, {'when': '2026-11-20', 'part': '982247'})
        >>> read_known("$1,234.56 dia 29", now), read_known("25,50 ontem 14:30", now)
        ({'amount': 'R$1.234,56', 'when': '2026-10-29'}, {'amount': '25,50', 'when': '2026-11-20'})
        >>> read_known("300", now), read_known("300 yesterday", now)
        ({'amount': 'R$ 300,00'}, {'amount': 'R$ 300,00', 'when': '2026-11-20'})
    """
    text = _as_in_brazil(number_days(_TIME.sub("", text), now)).strip()
    for form in (_KNOWN_AMOUNT, _KNOWN_WHOLE, _KNOWN_DAY):
        if (found := form.fullmatch(text)) and (asked := _read_facts(found.groupdict(), now)):
            if form is _KNOWN_WHOLE:
                asked["amount"] = show_reais(int(re.sub("[.,]", "", asked["amount"])) * 100)
            return asked
    return _read_party(text)


def find_time(text: str) -> str | None:
    """The time of day in a search text, which is left out: payer, institution and service record different instants."""
    found = _TIME.search(text)
    return None if found is None else found[1] or found[2]


def _as_in_brazil(text: str) -> str:
    return _DOLLAR.sub("R$", _ENGLISH.sub(lambda found: f"{found[1].replace(',', '.')},{found[2]}", text))


def read_otherwise(text: str) -> dict[str, str]:
    """What else a text may mean: digits or one word a part of an id, a number or day with letters a name.

    Example:
        >>> read_otherwise("255012"), read_otherwise("vBdpyo"), read_otherwise("Maria Silva"), read_otherwise("ontem")
        ({'part': '255012'}, {'part': 'vBdpyo'}, {}, {})
        >>> read_otherwise("3 Irmãos"), read_otherwise("Bar-24"), read_otherwise("7 de Setembro")
        ({'who': '3 Irmãos'}, {'who': 'Bar-24'}, {'who': '7 de Setembro'})
    """
    if text.isdecimal():
        return dict(part=text) if _PART.fullmatch(text) else {}
    found = _KNOWN_WHOLE.fullmatch(text) or _KNOWN_DAY.fullmatch(text)
    if found is None and _PART_OR_NAME.fullmatch(text):
        return dict(part=text)
    is_other = (found and (found["first"] or found["last"])) or _PART.fullmatch(text) or NAMED_DAY.search(text)
    return dict(who=text) if is_other and _NAME.fullmatch(text) else {}


def read_order(text: str, now: datetime) -> dict[str, str]:
    """The id in ``pedido 1001`` or ``#1001 yesterday``, and the day; empty for any other text."""
    if (found := _ORDER.fullmatch(number_days(_TIME.sub("", text), now).strip())) is None:
        return {}
    return dict(part=found[1]) | (dict(when=as_days(found["when"], now)) if found["when"] else {})


def _read_party(text: str) -> dict[str, str]:
    if found := _MIDDLE.fullmatch(text):
        return dict(part=found[1] + found[2])
    if order := _ORDER.fullmatch(text):
        return dict(part=order[1])
    if not _TAX_ID.fullmatch(text) and _PART.fullmatch(text):
        return dict(part=text)
    return dict(who=text) if _TAX_ID.fullmatch(text) or _NAME.fullmatch(text) else {}


def _read_facts(found: dict[str, str | None], now: datetime) -> dict[str, str]:
    """Return the amount, the day and the party, or a part of an id; empty if the rest is none of them."""
    who = [text for name in ("first", "last") if (text := found[name])]
    when = [text for name, text in found.items() if name.startswith("when") and text]
    party = _read_party(who[0]) if who else {}
    if len(who) > 1 or len(when) > 1 or (who and not party):
        return {}
    facts = dict(amount=found.get("amount"), when=as_days(when[0], now) if when else None) | party
    return {name: text for name, text in facts.items() if text}


def list_possible_amounts(text: str) -> list[str]:
    """What digits alone may mean besides an id: ``2550`` is ``R$ 25,50`` in cents, or ``R$ 2.550,00``."""
    cents = int(text) if _DIGITS.fullmatch(text) else None
    return [] if cents is None else [show_reais(cents), show_reais(cents * 100)]


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
    cents = _read_cents(text)
    if cents is None:
        raise errors.BadRequest(f"{name}: write 100 or 100,00, with >=, >, <=, < or =, or a range as 10..20")
    return cents, cents


def _read_cents(text: str) -> int | None:
    found = _AMOUNT.fullmatch(_as_in_brazil(text.strip()))
    cents = -1 if found is None else int(found[1].replace(".", "")) * 100 + int((found[2] or "").ljust(2, "0"))
    return cents if 0 <= cents <= AMOUNT_MAX_CENTS else None


def _read_instant(name: str, text: str) -> tuple[datetime, datetime]:
    text = text.strip()
    try:
        instant = datetime.fromisoformat(text) if _INSTANT.fullmatch(text) else None
    except ValueError:
        instant = None
    if instant is None or not 1970 <= instant.year <= 9998:
        raise errors.BadRequest(f"{name}: write 2026-11-03 or 2026-11-03 12:00, with >=, >, <=, < or =, or a range as a..b")
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=SAO_PAULO)
    # A missing part means all of it: for a day its hours, for a minute its seconds.
    if len(text) == _DAY_LENGTH:
        # By the calendar: a day has 23 or 25 hours where summer time begins or ends.
        end = (instant + timedelta(days=1)).astimezone(UTC)
    else:
        end = instant.astimezone(UTC) + {16: timedelta(minutes=1), 19: timedelta(seconds=1)}.get(len(text), _TICK)
    return instant.astimezone(UTC), end - _TICK
