"""The texts of an OFX file: its encoding, the entities, and dates as banks in Brazil write them.

A date is the day in Sao Paulo, and the instant if it has a zone.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from typing import Final

from pixconnect.features.institutions.statement_files.statement_file import YEARS, InvalidStatement, check_instant
from pixconnect.platform.base.clock import to_day

_HEADER_LENGTH_MAX: Final = 2048
_ENTITY: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos|nbsp)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));")
_ENTITIES: Final = dict(amp="&", lt="<", gt=">", quot='"', apos="'", nbsp=" ")
# The year is first, or has a century: then no month can be mistaken for a year.
_DAYS: Final = (
    re.compile(r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})(?P<rest>.*)", re.DOTALL),
    re.compile(r"(?P<year>[0-9]{4})([-/.])(?P<month>[0-9]{1,2})\2(?P<day>[0-9]{1,2})(?P<rest>(?![0-9]).*)", re.DOTALL),
    re.compile(r"(?P<day>[0-9]{1,2})([-/.])(?P<month>[0-9]{1,2})\2(?P<year>[0-9]{4})(?P<rest>(?![0-9]).*)", re.DOTALL),
)
# 010726 could be the first of July or the seventh of January, or a day of 2001.
_AMBIGUOUS: Final = re.compile(r"[0-9]{6}(?![0-9]).*|[0-9]{1,2}[-/. ][0-9]{1,2}[-/. ][0-9]{2}(?![0-9]).*", re.DOTALL)
_REST: Final = re.compile(
    r"(?:[T ]?(?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2}))?(?:[.,](?P<part>[0-9]{1,6})[0-9]{0,6})?)?"
    r"\s*(?:\[\s*(?P<zone>[^\[\]]{0,40})\]?|(?P<bare>[+-][0-9:.]{1,6}|[A-Za-z]{1,4}))?\s*"
)
_ZONE: Final = re.compile(r"(?P<hours>[+-]?[0-9]{1,2})(?:(?P<fraction>\.[0-9]{1,2})|:?(?P<minutes>[0-9]{2}))?(?::.*)?")
_ZONES: Final = dict(GMT="0", UTC="0", Z="0", BRT="-3")


def decode(content: bytes) -> str:
    """Decode as the header declares; valid UTF-8 beyond ASCII counts as UTF-8 regardless.

    Amounts, days and ids are ASCII, so that a wrong header changes names and texts alone.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        header = content[:_HEADER_LENGTH_MAX].decode("ascii", "replace").upper()
        # CHARSET:1252 means Windows-1252, which files that wrongly claim UTF-8 use too.
        codec = "iso-8859-1" if re.search(r"8859-1\b", header) else "cp1252"
        return content.decode(codec, "replace")


def unescape(text: str) -> str:
    def _replace(found: re.Match[str]) -> str:
        if found[1]:
            return _ENTITIES[found[1]]
        number = int(found[2]) if found[2] else int(found[3], 16)
        return chr(number) if number <= 0x10FFFF else found[0]

    return _ENTITY.sub(_replace, text)


def parse_date(text: str, field: str, line: int) -> tuple[date, datetime | None] | None:
    """Read a day and its instant; ``None`` if the text has no day, such as ``00000000``.

    The zone's number counts, not its name: many write ``[-3:GMT]``. They write a day without a time as midnight, in any zone.
    If the time or the zone is unreadable, the day counts as written.

    Raises:
        InvalidStatement: It could be more than one day.
    """
    for form in _DAYS:
        if (found := form.fullmatch(text)) is not None:
            try:
                day = date(*(int(found[name]) for name in ("year", "month", "day")))
            except ValueError:
                return None
            return _read_day(day, found["rest"]) if day.year in YEARS else None
    if _AMBIGUOUS.fullmatch(text) and re.search("[1-9]", text):
        raise InvalidStatement(f"{field}: {text[:40]!r} could be more than one day", line)
    return None


def parse_instant(text: str) -> datetime | date | None:
    """Read when a file was made; only its day if the text has no time."""
    try:
        parsed = parse_date(text, "", 0)
        # Without a zone it is the bank's own time.
        parsed = parse_date(f"{text}[-3]", "", 0) if parsed is not None and parsed[1] is None else parsed
    except InvalidStatement:
        return None
    return None if parsed is None else check_instant(parsed[1] or datetime.combine(parsed[0], time()))


def _read_day(day: date, rest: str) -> tuple[date, datetime | None]:
    found = _REST.fullmatch(rest)
    if found is None or found["hour"] is None:
        return day, None
    try:
        zone = _read_zone(found["zone"] or found["bare"] or "")
        hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
        at = time(hour, minute, second, int((found["part"] or "0").ljust(6, "0")))
        # Without a zone it is the bank's own day, despite the standard.
        if zone is None or at == time():
            return day, None
        instant = datetime.combine(day, at, timezone(zone))
        return to_day(instant), instant
    except (ValueError, OverflowError):
        return day, None


def _read_zone(text: str) -> timedelta | None:
    found = _ZONE.fullmatch(_ZONES.get(text.strip().upper(), text.strip()))
    if found is None:
        return None
    hours = float(found["hours"] + (found["fraction"] or ""))
    minutes = int(found["minutes"] or 0)
    return timedelta(hours=hours, minutes=-minutes if found["hours"].startswith("-") else minutes)
