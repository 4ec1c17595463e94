"""Reads values of answers strictly: a value in the wrong form is ``Malformed``, and never converted.

An amount in reais is a text with two decimals, an instant has its offset, a name of the network has its form. JSON's numbers
are amounts only if the institution's document defines them so.

Also reads a sent Pix's payee, whose members an institution reports in full, masked, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, TypeVar

import msgspec

from pixconnect.features.institutions.adapters.message import as_list, as_members
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.holder import KEY_LENGTH_MAX, KeyType, Party, describe_party, parse_pix_key
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from pixconnect.platform.outgoing_text import cut_text

ReadT = TypeVar("ReadT")
WordT = TypeVar("WordT")

_REAIS: Final = re.compile(r"[0-9]{1,10}\.[0-9]{2}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?")
_ANY_TXID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_BALANCE_MAX_CENTS: Final = 10**17
_YEARS: Final = range(2010, 2100)
_CONTENT_MAX: Final = 2000
_NAME_MAX: Final = 200
_NUMBER_MAX: Final = 20
_ISPB_LENGTH: Final = 8
MALFORMED_MAX: Final = 24  # maximum of unreadable items of one answer that are kept separately


class Malformed(Exception):  # noqa: N818  the institution's answer is
    """A value in the wrong form; ``reason`` names it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def take_members(members: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = as_members(members.get(name))
    if found is None:
        raise Malformed(f"{name} is no object")
    return found


def take_rows(members: Mapping[str, object], name: str) -> Sequence[object]:
    found = as_list(members.get(name))
    if found is None:
        raise Malformed(f"{name} is no list")
    return found


def take_text(members: Mapping[str, object], name: str, length_max: int, *, form: re.Pattern[str] | None = None) -> str:
    found = find_text(members, name, length_max)
    if found is None or (form is not None and not form.fullmatch(found)):
        raise Malformed(f"{name} is absent, or has not its form")
    return found


def find_text(members: Mapping[str, object], name: str, length_max: int) -> str | None:
    """Find an optional text; an empty one counts as absent."""
    value = members.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > length_max:
        raise Malformed(f"{name} is no text of at most {length_max} characters")
    return to_storable(value)


def find_whole_key(members: Mapping[str, object], name: str, key_type: KeyType | None = None) -> str | None:
    """Find a Pix key in its stored form, if reported in full; ``None`` if masked or of another type."""
    key = find_text(members, name, KEY_LENGTH_MAX)
    if key is None or "*" in key:
        return None
    try:
        return parse_pix_key(key, key_type).key
    except errors.InvalidPixKey:
        return None


def find_free_text(members: Mapping[str, object], name: str, length_max: int) -> str | None:
    """Find a text for display only: cut to the length, and ``None`` for anything but text."""
    value = members.get(name)
    return (to_storable(value)[:length_max] or None) if isinstance(value, str) else None


def to_storable(text: str) -> str:
    """Drop characters that PostgreSQL rejects."""
    return "".join(each for each in text if each != "\x00" and not "\ud800" <= each <= "\udfff")


def take_status(members: Mapping[str, object], words: Mapping[str, WordT]) -> WordT:
    """Read a status; an unknown word is never guessed: it might be money, or a refusal that is none."""
    status = words.get(take_text(members, "status", 40))
    if status is None:
        raise Malformed("status is a word that we do not know")
    return status


def take_reais(members: Mapping[str, object], name: str, *, is_balance: bool = False) -> int:
    """Read an amount that is a text such as ``106.07``, in cents; above zero, except for a balance."""
    value = members.get(name)
    text = value if isinstance(value, str) else ""
    sign = -1 if is_balance and text.startswith("-") else 1
    digits = text.removeprefix("-") if is_balance else text
    if not _REAIS.fullmatch(digits):
        raise Malformed(f"{name} is no amount in reais with two decimals")
    return _check_amount(name, sign * int(digits.replace(".", "")), is_balance=is_balance)


def take_number_of_reais(members: Mapping[str, object], name: str) -> int:
    """Read a balance that is a number or text such as ``106.07``, in cents."""
    value = members.get(name)
    # JSON's floats are kept as written, so nothing is rounded here. Decimal alone would accept other scripts' digits and
    # underscores, and fail by itself at a huge exponent.
    if type(value) not in (int, float, str) or not _NUMBER.fullmatch(str(value)):
        raise Malformed(f"{name} is no number of reais")
    cents = Decimal(str(value)) * 100
    if abs(cents) > _BALANCE_MAX_CENTS or cents != cents.to_integral_value():
        raise Malformed(f"{name} is no number of reais with at most two decimals")
    return int(cents)


def take_cents(members: Mapping[str, object], name: str, *, is_balance: bool = False) -> int:
    value = members.get(name)
    if type(value) is not int:
        raise Malformed(f"{name} is no whole number of cents")
    return _check_amount(name, value, is_balance=is_balance)


def take_count(members: Mapping[str, object], name: str, most: int) -> int:
    value = members.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise Malformed(f"{name} is no whole number from 0 to {most}")
    return value


def take_instant(members: Mapping[str, object], name: str) -> datetime:
    value = members.get(name)
    if not isinstance(value, str) or len(value) > 40:
        raise Malformed(f"{name} is no instant")
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise Malformed(f"{name} is no instant") from None
    if instant.tzinfo is None or instant.year not in _YEARS:
        raise Malformed(f"{name} is no instant with its offset in this century")
    return instant.astimezone(UTC)


def find_instant(members: Mapping[str, object], name: str) -> datetime | None:
    return None if members.get(name) in (None, "") else take_instant(members, name)


def take_local_day(members: Mapping[str, object], *names: str) -> tuple[date, datetime | None]:
    """Read a day of Sao Paulo, and the instant if reported; the first existing name counts."""
    for name in names:
        value = members.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > 40:
            break
        return _parse_local(name, value)
    raise Malformed(f"{' and '.join(names)}: there is no day")


def take_end_to_end_id(members: Mapping[str, object], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not identifiers.is_end_to_end_id(value):
        raise Malformed(f"{name} is no end-to-end id")
    return value


def find_network_name(members: Mapping[str, object], name: str) -> str | None:
    """Find an end-to-end id or the name of a return; ``None`` in another form."""
    value = members.get(name)
    if not isinstance(value, str):
        return None
    return value if identifiers.is_end_to_end_id(value) or identifiers.is_return_id(value) else None


def find_return_id(members: Mapping[str, object], name: str) -> str | None:
    """Find a return's name; raises for a wrong form."""
    value = find_text(members, name, 64)
    if value is not None and not identifiers.is_return_id(value):
        raise Malformed(f"{name} is no name of a return")
    return value


def find_any_txid(members: Mapping[str, object], name: str) -> str | None:
    """Find the txid of a charge, or the shorter reference of a static code."""
    value = find_text(members, name, 64)
    if value is not None and not _ANY_TXID.fullmatch(value):
        raise Malformed(f"{name} is no txid")
    return value


def check_ispb(text: str | None) -> str | None:
    """Return an ISPB as it was reported; ``None`` in another form."""
    return text if text and text.isascii() and len(text) == _ISPB_LENGTH and text.isalnum() else None


def read_each(rows: Sequence[object], read: Callable[[Mapping[str, object]], ReadT]) -> list[ReadT | MalformedItem]:
    """Read the rows of a list; unreadable ones are kept beside the others."""
    items = list[ReadT | MalformedItem]()
    broken_count = 0
    for row in rows:
        try:
            items.append(read(as_members(row) or {}))
        except Malformed as error:
            broken_count += 1
            # If a whole list is broken, showing its 100,000 rows must not take a second.
            if broken_count <= MALFORMED_MAX:
                items.append(as_malformed(row, error.reason))
    return bound_malformed(items, broken_count)


def bound_malformed(items: list[ReadT | MalformedItem], broken_count: int = 0) -> list[ReadT | MalformedItem]:
    """Merge the unreadable items of an answer into one if there are many: each is a report to a person."""
    broken = [item for item in items if isinstance(item, MalformedItem)]
    broken_count = max(broken_count, len(broken))
    if broken_count <= MALFORMED_MAX:
        return items
    reason = f"{broken_count} items of one answer, the first of them because {broken[0].reason}"
    summary = MalformedItem(reason=reason, end_to_end_id=None, content=broken[0].content)
    return [*(item for item in items if not isinstance(item, MalformedItem)), summary]


def as_malformed(item: object, reason: str) -> MalformedItem:
    try:
        content = msgspec.json.encode(item).decode()
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError):
        content = repr(item)[:_CONTENT_MAX]
    named = (as_members(item) or {}).get("endToEndId")
    end_to_end_id = named if isinstance(named, str) and identifiers.is_end_to_end_id(named) else None
    content = cut_text(to_storable(content[: 2 * _CONTENT_MAX]), _CONTENT_MAX)
    return MalformedItem(reason=reason, end_to_end_id=end_to_end_id, content=content)


def _check_amount(name: str, cents: int, *, is_balance: bool) -> int:
    if not (abs(cents) <= _BALANCE_MAX_CENTS if is_balance else 1 <= cents <= AMOUNT_MAX_CENTS):
        raise Malformed(f"{name} is no amount that a Pix can have")
    return cents


def _parse_local(name: str, text: str) -> tuple[date, datetime | None]:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"{name} is neither a day nor an instant") from None
    if parsed.year not in _YEARS:
        raise Malformed(f"{name} is no day of this century")
    if len(text) == len("2026-01-31"):
        return parsed.date(), None
    # Some write no offset: their times are Sao Paulo's.
    instant = parsed.replace(tzinfo=SAO_PAULO) if parsed.tzinfo is None else parsed
    return to_day(instant), instant.astimezone(UTC)


def find_listed_payee(members: Mapping[str, object], **names: str) -> Party | None:
    """Find a payee as far as reported; ``None`` if not at all. It is only shown, so nothing of it is refused.

    Args:
        names: Their name of each of our members; of several with commas, the first that exists.
    """
    found = dict[str, str]()
    for member, called in names.items():
        length_max = _NAME_MAX if member == "name" else _NUMBER_MAX
        texts = (find_free_text(members, name, length_max) for name in called.split(","))
        text = next(filter(None, texts), None)
        # A number of another length is no ISPB, and must not be shown as one.
        if text is not None and (member != "ispb" or len(text) == _ISPB_LENGTH):
            # An unmasked tax id loses its punctuation.
            is_marked = member == "tax_id" and "*" not in text
            found[member] = "".join(each for each in text if each.isalnum()) if is_marked else text
    return describe_party(**found) if found else None


def find_first(members: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """Find the first of these members that is an object; empty if there is none."""
    for name in names:
        if found := as_members(members.get(name)):
            return found
    return {}
