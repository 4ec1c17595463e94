"""OFX, as banks in Brazil write it: 1.x (SGML, mostly in Windows-1252) and 2.x (XML), read by one reader.

We read it ourselves, as a run of tags with texts. ofxtools, with which our tests read what we write, passes over the balance
after a ``STMTTRN`` without an end, reads nothing without ``ACCTTYPE``, takes a day for midnight in UTC, and names no line.

What is forgiven changes no amount: missing end tags, a comma before the cents, an encoding that the header names wrongly.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.institutions.institution import InstitutionItem
from pixconnect.domain.institutions.statement_files import statement_file as files
from pixconnect.domain.institutions.statement_files.statement_file import (
    InvalidStatement,
    ItemList,
    StatedBalance,
    StatementAccount,
    StatementFile,
)
from pixconnect.domain.money.rail import MovementKind

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9._-]{0,63})\s*/?>([^<]*)")
_OTHER_TAG: Final = re.compile(r"<[?][^<>]*>[^<]*")
_ENTITY: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos|nbsp)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));")
_ENTITIES: Final = dict(amp="&", lt="<", gt=">", quot='"', apos="'", nbsp=" ")
_HEADER_LENGTH_MAX: Final = 2048

# What holds other elements, and in what it stands. Everything else is a tag with a text, whose end may be missing.
_PARENTS: Final = dict(
    OFX="",
    BANKMSGSRSV1="OFX",
    STMTTRNRS="BANKMSGSRSV1",
    STMTRS="STMTTRNRS",
    BANKACCTFROM="STMTRS",
    BANKTRANLIST="STMTRS",
    STMTTRN="BANKTRANLIST",
    BANKACCTTO="STMTTRN",
    CCACCTTO="STMTTRN",
    PAYEE="STMTTRN",
    CURRENCY="STMTTRN",
    ORIGCURRENCY="STMTTRN",
    LEDGERBAL="STMTRS",
    AVAILBAL="STMTRS",
    BALLIST="STMTRS",
    BAL="BALLIST",
    BANKTRANLISTP="STMTRS",
    STMTTRNP="BANKTRANLISTP",
)
_OF_OTHER_ACCOUNTS: Final = {"CCSTMTRS", "INVSTMTRS", "CCACCTFROM", "INVACCTFROM"}
_TYPES: Final = dict[str, MovementKind](FEE="fee", SRVCHG="fee")


class _Aggregate(Struct, kw_only=True):
    name: str
    line: int
    texts: dict[str, str]


class _Reader:
    """Follows the tags of one file; ``text`` has line feeds alone."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Aggregate] = []
        self._items = ItemList()
        # One of each in a file of one account.
        self._account: _Aggregate | None = None
        self._list: _Aggregate | None = None
        self._statement: _Aggregate | None = None
        self._ledger_balance: _Aggregate | None = None
        self._opening: _Aggregate | None = None
        self._is_whole = False
        # Lines are counted once, as far as the reader has come.
        self._line, self._counted_to = 1, 0

    def _count_to(self, offset: int) -> None:
        self._line += self._text.count("\n", self._counted_to, offset)
        self._counted_to = offset

    def _fail(self, rule: str) -> InvalidStatement:
        return InvalidStatement(rule, self._line)

    def read(self) -> StatementFile:
        start = re.search("<OFX>", self._text, re.IGNORECASE)
        if start is None:
            raise InvalidStatement("there is no <OFX> in it")
        position = start.start()
        while position < len(self._text):
            self._count_to(position)
            found = _TAG.match(self._text, position)
            if found is not None:
                self._take(found[2].upper(), found[3], is_end=found[1] == "/")
            else:
                # Instructions to programs hold nothing of a statement.
                found = _OTHER_TAG.match(self._text, position)
                if found is None:
                    raise self._fail("there is a < that begins no tag")
            position = found.end()
        self._close_to(None)
        return self._conclude()

    def _take(self, name: str, content: str, *, is_end: bool) -> None:
        if name in _OF_OTHER_ACCOUNTS:
            raise self._fail(f"{name}: it is the statement of a card or of investments")
        if is_end:
            if name in ("OFX", "BANKTRANLIST"):
                self._is_whole = True
            if any(aggregate.name == name for aggregate in self._open):
                self._close_to(name)
                self._close_last()
        elif name in _PARENTS:
            self._open_aggregate(name)
        elif self._open:
            self._take_text(name, content)

    def _take_text(self, name: str, content: str) -> None:
        texts, text = self._open[-1].texts, _unescape(content).strip()
        if text and texts.setdefault(name, text) != text:
            raise self._fail(f"{name}: stands twice, with two contents")

    def _open_aggregate(self, name: str) -> None:
        parent = _PARENTS[name]
        if any(aggregate.name == name for aggregate in self._open):
            self._close_to(name)
            self._close_last()
        if any(aggregate.name == parent for aggregate in self._open):
            # What is still open in there has no end tag of its own.
            self._close_to(parent)
        elif name == "STMTTRN":
            raise self._fail("STMTTRN: stands outside of a BANKTRANLIST")
        self._open.append(_Aggregate(name=name, line=self._line, texts={}))

    def _close_to(self, name: str | None) -> None:
        while self._open and self._open[-1].name != name:
            self._close_last()

    def _close_last(self) -> None:
        closed = self._open.pop()
        match closed.name:
            case "STMTTRN":
                self._items.add(self._make_item(closed), closed.line)
            case "CURRENCY" if closed.texts.get("CURSYM", "BRL") != "BRL":
                raise self._fail("CURRENCY: only lines in BRL are read")
            case "PAYEE" if self._open:
                self._open[-1].texts.setdefault("NAME", closed.texts.get("NAME", ""))
            case "STMTRS":
                self._statement = self._keep_one(self._statement, closed)
            case "BANKACCTFROM":
                self._account = self._keep_one(self._account, closed)
            case "BANKTRANLIST":
                self._list = self._keep_one(self._list, closed)
            case "LEDGERBAL":
                self._ledger_balance = self._keep_one(self._ledger_balance, closed)
            case "BAL" if closed.texts.get("NAME", "").upper() == "OPENING":
                self._opening = self._keep_one(self._opening, closed)
            case _:
                pass

    def _keep_one(self, before: _Aggregate | None, closed: _Aggregate) -> _Aggregate:
        if before is not None:
            raise self._fail(f"{closed.name}: there are two; a file may have the statement of one account")
        return closed

    def _make_item(self, element: _Aggregate) -> InstitutionItem:
        texts, line = element.texts, element.line
        item_id = files.check_item_id(texts.get("FITID", ""), "FITID", line)
        if "CORRECTFITID" in texts:
            raise InvalidStatement(f"CORRECTFITID: line {item_id} corrects another one, which is not read", line)
        cents = files.parse_cents(_need(texts, "TRNAMT", line), "TRNAMT", line)
        kind = texts.get("TRNTYPE", "").upper()
        # The sign is what counts in OFX. Where the type contradicts it, one of the two is wrong.
        if (kind == "DEBIT" and cents > 0) or (kind == "CREDIT" and cents < 0):
            raise InvalidStatement(f"TRNAMT: its sign contradicts the TRNTYPE {kind}", line)
        day, settled_at = _parse_date(_need(texts, "DTPOSTED", line), "DTPOSTED", line)
        name, memo = files.clean_text(texts.get("NAME", "")), files.clean_text(texts.get("MEMO", ""))
        found = InstitutionItem(
            item_id=item_id,
            day=day,
            settled_at=settled_at,
            direction="OUT" if cents < 0 else "IN",
            amount_cents=abs(cents),
            kind=_TYPES.get(kind) or files.find_kind(memo or name),
            text=memo or name,
            counterparty=name or None,
        )
        return files.add_found_names(found, texts.get("REFNUM", ""), texts.get("CHECKNUM", ""), item_id, name, memo)

    def _conclude(self) -> StatementFile:
        if self._account is None or self._list is None:
            raise InvalidStatement("it has no BANKACCTFROM with a BANKTRANLIST: it is no statement of a bank account")
        if not self._is_whole:
            raise InvalidStatement("it is cut off: neither BANKTRANLIST nor OFX ends")
        currency = self._statement.texts.get("CURDEF", "BRL") if self._statement is not None else "BRL"
        if currency.upper() != "BRL":
            raise InvalidStatement(f"CURDEF: the account is in {currency[:10]!r}, and not in BRL")
        account, line = self._account.texts, self._account.line
        told = tuple(self._date_of(self._list, name) for name in ("DTSTART", "DTEND"))
        first_on, last_on = files.find_days((told[0], told[1]), self._items.items)
        opening = self._balance_of(self._opening, "VALUE")
        return StatementFile(
            format="ofx",
            account=StatementAccount(
                bank=files.clean_text(account.get("BANKID", "")),
                branch=files.clean_text(account.get("BRANCHID", "")),
                number=files.clean_text(_need(account, "ACCTID", line)),
            ),
            first_on=first_on,
            last_on=last_on,
            # It is the balance before the span, whatever hour it bears.
            opening=opening and StatedBalance(cents=opening.cents, on=first_on - timedelta(days=1)),
            closing=self._balance_of(self._ledger_balance, "BALAMT"),
            items=self._items.items,
            changed=self._items.changed,
            notes=files.note_outside((first_on, last_on), self._items.items),
        )

    def _date_of(self, element: _Aggregate, name: str) -> date | None:
        text = element.texts.get(name)
        return None if text is None else _parse_date(text, name, element.line)[0]

    def _balance_of(self, element: _Aggregate | None, name: str) -> StatedBalance | None:
        if element is None or name not in element.texts:
            return None
        line = element.line
        on = _parse_date(_need(element.texts, "DTASOF", line), "DTASOF", line)[0]
        return StatedBalance(cents=files.parse_cents(element.texts[name], name, line), on=on)


def read_ofx(content: bytes) -> StatementFile:
    """Read a statement of one bank account.

    Raises:
        InvalidStatement: It is none, or says something in two ways.
    """
    files.check_size(content)
    text = _decode(content).replace("\r\n", "\n").replace("\r", "\n")
    return _Reader(_blank_out(text)).read()


def _decode(content: bytes) -> str:
    """Texts as the header says; what is right UTF-8 beyond ASCII is that, whatever it says.

    Amounts, days and ids are ASCII, so that a header that is wrong changes names and texts alone.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in content[:_HEADER_LENGTH_MAX]:
        raise InvalidStatement("it is written in UTF-16; OFX has UTF-8 or one byte for each character")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        header = content[:_HEADER_LENGTH_MAX].decode("ascii", "replace").upper()
        # Windows-1252 is what CHARSET:1252 means, and what those write who say UTF-8 and do not.
        codec = "iso-8859-1" if re.search(r"8859-1\b", header) else "cp1252"
        return content.decode(codec, "replace")


def _blank_out(text: str) -> str:
    """The text without comments, and with escaped CDATA; each line stays where it is.

    Example:
        >>> _blank_out("<A><![CDATA[1 < 2]]></A><!-- no -->")
        '<A>1 &lt; 2</A>'
    """
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise InvalidStatement("it declares a document type, which no statement needs")
    parts: list[str] = []
    position = 0
    while (start := text.find("<!", position)) >= 0:
        parts.append(text[position:start])
        mark, end_mark = ("<!--", "-->") if text.startswith("<!--", start) else ("<![CDATA[", "]]>")
        end = text.find(end_mark, start + len(mark)) if text.startswith(mark, start) else -1
        if end < 0:
            raise InvalidStatement("there is a <! that begins no comment and no CDATA", text.count("\n", 0, start) + 1)
        inside = text[start + len(mark) : end]
        is_comment = mark == "<!--"
        parts.append("\n" * inside.count("\n") if is_comment else inside.replace("&", "&amp;").replace("<", "&lt;"))
        position = end + len(end_mark)
    return "".join((*parts, text[position:]))


def _unescape(text: str) -> str:
    def _replace(found: re.Match[str]) -> str:
        if found[1]:
            return _ENTITIES[found[1]]
        number = int(found[2]) if found[2] else int(found[3], 16)
        return chr(number) if number <= 0x10FFFF else found[0]

    return _ENTITY.sub(_replace, text)


def _need(texts: dict[str, str], name: str, line: int) -> str:
    text = texts.get(name)
    if text is None:
        raise InvalidStatement(f"{name}: is missing", line)
    return text


_DATE: Final = re.compile(
    r"(?P<day>[0-9]{8})(?:(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?P<second>[0-9]{2})?(?:\.(?P<part>[0-9]{1,6}))?)?"
    r"\s*(?:\[(?P<zone>[+-]?[0-9]{1,2}(?:\.[0-9]{1,2})?)(?::[^\]]*)?\])?"
)


def _parse_date(text: str, field: str, line: int) -> tuple[date, datetime | None]:
    """Read the day in Sao Paulo, and the instant where one is told with its zone.

    The zone's number counts, not its name: many write ``[-3:GMT]``. Midnight there is how they write a day without a time.
    """
    found, rule = _DATE.fullmatch(text), f"{field}: {text[:40]!r} is no date as OFX writes it"
    if found is None:
        raise InvalidStatement(rule, line)
    try:
        day = date(int(text[:4]), int(text[4:6]), int(text[6:8]))
        if found["hour"] is None or found["zone"] is None:
            # Without a zone it is the bank's own day, whatever the standard says of such times.
            _check_time(found)
            return day, None
        zone = timezone(timedelta(hours=float(found["zone"])))
        told = datetime.combine(day, _check_time(found), zone)
        if told.time().isoformat() == "00:00:00" and found["zone"] in ("-3", "-03", "-3.0", "-03.00"):
            return day, None
        return to_day(told), told
    except (ValueError, OverflowError):
        raise InvalidStatement(rule, line) from None


def _check_time(found: re.Match[str]) -> time:
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    return time(hour, minute, second, int((found["part"] or "0").ljust(6, "0")))
