"""OFX, as banks in Brazil write it: 1.x (SGML, mostly in Windows-1252) and 2.x (XML), read by one reader.

We read it ourselves, as a sequence of tags with texts. ofxtools, with which our tests read our own files, skips the balance
after an unclosed ``STMTTRN``, reads nothing without ``ACCTTYPE``, takes a day for midnight in UTC, and names no line.

Tolerated errors change no amount: missing end tags, a comma before the cents, a wrong encoding in the header. An unreadable
field that moves no money, such as a balance's date, is noted. Ambiguous contents are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.statement_files import statement_file as files
from pixconnect.features.institutions.statement_files.ofx_tags import FREE_TEXTS, PARENTS, Layout, Tag, list_tags
from pixconnect.features.institutions.statement_files.ofx_text import parse_date, parse_instant, unescape
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount, read_type
from pixconnect.kernel.rules.rail import MovementKind

_OTHER_STATEMENTS: Final = {"CCSTMTRS", "INVSTMTRS"}
_AROUND: Final = {"STMTRS", "STMTTRNRS", "BANKMSGSRSV1", "OFX"}  # the permitted parents
_TYPES: Final = dict[str, MovementKind](FEE="fee", SRVCHG="fee")
_WAITS: Final = "what is nothing of yours waits for your answer, unless balances prove it"
_TAGS_MAX: Final = 400  # maximum directly in one element, apart from lines of money
_TEXT_LENGTH_MAX: Final = 4096
# Markup that banks and payers write into texts is stripped.
_MARKUP: Final = re.compile(r"</?(?:BR|P|B|I|U|DIV|SPAN|FONT|STRONG|EM)\b[^<>]{0,200}>", re.IGNORECASE)
_TEXT_ENDS: Final = re.compile(
    r"</(?:NAME|EXTDNAME|MEMO)>\s{0,20}(?:</STMTTRN>)?\Z|</STMTTRN>\Z|</(NAME|MEMO)>\s{0,20}<\1>", re.IGNORECASE
)
_FOREIGN: Final = re.compile(r"<CURRENCY>.{0,100}?<CURSYM>\s*([^<]{0,10})", re.IGNORECASE | re.DOTALL)
# Two contents of one of these are two readings of a file; of other elements the first counts.
_SINGLE: Final = {
    "TRNTYPE", "DTPOSTED", "TRNAMT", "FITID", "CORRECTFITID", "CURSYM", "CURDEF", "BANKID", "BRANCHID", "ACCTID", "DTSTART",
    "DTEND", "BALAMT", "DTASOF", "VALUE",
}  # fmt: skip


class _Aggregate(Struct, kw_only=True):
    name: str
    line: int
    texts: dict[str, str]
    tags_count: int = 0
    is_foreign: bool = False  # a free text of it contains another currency


class _Reader:
    def __init__(self, layout: Layout, tags: Iterator[Tag]) -> None:
        self._layout = layout
        self._tags = tags
        self._line = 1
        self._top = _Aggregate(name="the file", line=1, texts={})
        self._open: list[_Aggregate] = []
        self._passed: str | None = None  # the reason for skipping the last statement that is not of a bank account
        self._is_passing = False
        self._statements: list[files.StatementFile] = []
        self._begin()

    def _begin(self) -> None:
        self._items = files.ItemList()
        self._doubtful = set[InstitutionItem]()
        self._notes: list[str] = []
        self._found: dict[str, list[_Aggregate]] = {}
        self._is_whole = False

    def _fail(self, rule: str) -> files.InvalidStatement:
        return files.InvalidStatement(rule, self._line)

    def read(self) -> files.StatementFile:
        for tag in self._tags:
            self._line = tag.line
            self._take(tag)
            if not self._is_passing:
                self._count(tag.name)
        self._close_to(None)
        return files.join_statements([*self._statements, self._conclude()])

    def _take(self, tag: Tag) -> None:
        name = tag.name
        if name in _OTHER_STATEMENTS and not tag.is_end:
            self._passed, self._is_passing = f"{name}: it is the statement of a card or of investments", True
            self._notes.append(f"line {tag.line}: {self._passed}, and is passed over")
        self._is_passing &= name not in _AROUND and not (tag.is_end and name in _OTHER_STATEMENTS)
        if self._is_passing:
            return
        if name in PARENTS and not tag.is_end:
            self._open_aggregate(name)
        elif not tag.is_end and not tag.is_empty and self._open:
            self._take_text(name, tag.content)
        if tag.is_end or tag.is_empty:
            self._is_whole |= name in ("OFX", "BANKTRANLIST")
            if any(aggregate.name == name for aggregate in self._open):
                self._close_to(name)
                self._close_last()

    def _count(self, name: str) -> None:
        holders = [element for element in self._open[-2:] if element.name != name]
        holder = holders[-1] if holders else self._top
        if not name.startswith("STMTTRN"):
            holder.tags_count += 1
        if holder.tags_count > _TAGS_MAX:
            raise self._fail(f"{holder.name}: has more than {_TAGS_MAX} elements")

    def _take_text(self, name: str, content: str) -> None:
        texts = self._open[-1].texts
        if name in FREE_TEXTS and self._open[-1].name == "STMTTRN":
            text, before = self._read_free_text(content[:_TEXT_LENGTH_MAX]), texts.get(name)
            if before is None or text not in before.split(" | "):
                texts[name] = (text if before is None else f"{before} | {text}")[:_TEXT_LENGTH_MAX]
            return
        text = unescape(content).strip()
        if text and texts.setdefault(name, text) != text and name in _SINGLE:
            raise self._fail(f"{name}: stands twice, with two contents")

    def _read_free_text(self, written: str) -> str:
        if not (self._layout.own_lines or self._layout.closed) and (foreign := _FOREIGN.search(written)):
            self._doubt_currency(foreign[1], self._line)
        text = _TEXT_ENDS.sub(lambda found: " | " if found[1] else "", written.rstrip())
        return unescape(_MARKUP.sub(" ", text)).strip()

    def _doubt_currency(self, code: str | None, line: int) -> None:
        """In the standard's order the bank's currency follows the texts, where a payer may have written one, too."""
        try:
            files.check_currency(code, "CURSYM", line)
        except files.InvalidStatement as error:
            self._open[-1].is_foreign = True
            if not self._doubtful:
                self._notes.append(f"{error}, unless a payer wrote that: {_WAITS}")

    def _open_aggregate(self, name: str) -> None:
        parent = PARENTS[name]
        if any(aggregate.name == name for aggregate in self._open):
            self._close_to(name)
            self._close_last()
        if name == "STMTRS" and "STMTRS" in self._found:
            self._is_whole = True
            self._statements.append(self._conclude())
            self._begin()
        if any(aggregate.name == parent for aggregate in self._open):
            # Elements still open in it have no end tag of their own.
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
                item = self._make_item(closed)
                self._items.add(item, closed.line)
                self._doubtful |= {item} if item is not None and closed.is_foreign else set()
            case "CURRENCY" if not (self._layout.is_certain or FREE_TEXTS.isdisjoint(self._open[-1].texts)):
                self._doubt_currency(closed.texts.get("CURSYM"), closed.line)
            case "CURRENCY":
                files.check_currency(closed.texts.get("CURSYM"), "CURSYM", closed.line)
            case "PAYEE" if self._open:
                self._open[-1].texts.setdefault("NAME", closed.texts.get("NAME", ""))
            case "OFX":
                self._found["OFX"] = [closed]
            case "STMTRS" | "BANKACCTFROM" | "BANKTRANLIST":
                before = self._found.setdefault(closed.name, [closed])[0]
                if before is not closed and (closed.name != "BANKACCTFROM" or closed.texts != before.texts):
                    raise self._fail(f"{closed.name}: there are two in one statement")
            case "LEDGERBAL":
                self._found.setdefault("LEDGERBAL", []).append(closed)
            case "BAL" if closed.texts.get("NAME", "").upper() == "OPENING":
                self._found.setdefault("OPENING", []).append(closed)
            case _:
                pass

    def _make_item(self, element: _Aggregate) -> InstitutionItem | None:
        texts, line = element.texts, element.line
        cents = files.parse_cents(_need(texts, "TRNAMT", line), "TRNAMT", line)
        if cents == 0:
            # Some banks write balances as lines, whose other fields are unreliable.
            return None
        item_id = files.check_item_id(texts.get("FITID", ""), "FITID", line)
        if "CORRECTFITID" in texts:
            raise files.InvalidStatement(f"CORRECTFITID: line {item_id} corrects another one, which is not read", line)
        kind = texts.get("TRNTYPE", "").upper()
        # The sign counts in OFX. If the type contradicts it, one of the two is wrong.
        if (kind == "DEBIT" and cents > 0) or (kind == "CREDIT" and cents < 0):
            raise files.InvalidStatement(f"TRNAMT: its sign contradicts the TRNTYPE {kind}", line)
        posted = parse_date(_need(texts, "DTPOSTED", line), "DTPOSTED", line)
        if posted is None:
            raise files.InvalidStatement(f"DTPOSTED: {texts['DTPOSTED'][:40]!r} is no date", line)
        name, memo = files.clean_text(texts.get("NAME", "")), files.clean_text(texts.get("MEMO", ""))
        found = InstitutionItem(
            item_id=item_id,
            day=posted[0],
            settled_at=posted[1],
            direction="OUT" if cents < 0 else "IN",
            amount_cents=abs(cents),
            kind=_TYPES.get(kind) or files.find_kind(memo or name),
            text=memo or name,
            counterparty=name or None,
        )
        ids = (texts.get("REFNUM", ""), texts.get("CHECKNUM", ""), item_id)
        return files.add_found_names(found, (name, memo), ids)

    def _conclude(self) -> files.StatementFile:
        accounts, lists = self._found.get("BANKACCTFROM"), self._found.get("BANKTRANLIST")
        if accounts is None or lists is None:
            if self._passed is not None:
                raise self._fail(self._passed)
            raise self._fail("it has no BANKACCTFROM with a BANKTRANLIST: it is no statement of a bank account")
        if not self._is_whole:
            raise self._fail("it is cut off: neither BANKTRANLIST nor OFX ends")
        for statement in self._found.get("STMTRS", ()):
            files.check_currency(statement.texts.get("CURDEF"), "CURDEF", statement.line)
        account, line = accounts[0].texts, accounts[0].line
        first_on, last_on = files.find_days(
            (self._read_day(lists[0], "DTSTART"), self._read_day(lists[0], "DTEND")), self._items.items
        )
        opening, closing = self._read_balance("OPENING", "VALUE"), self._read_balance("LEDGERBAL", "BALAMT")
        if len(self._items.items) > 1 and (doubt := self._layout.doubt) is not None:
            rule = f"line {lists[0].line}: BANKTRANLIST: {doubt}"
            self._doubtful |= {*self._items.items}
            self._notes.append(f"{rule}, so a payer's text may pass for one: {_WAITS}")
        # The element around all statements ends only when the last of them is concluded.
        around = [one for one in (*self._open, *self._found.get("OFX", ())) if one.name == "OFX"]
        made_at = [parse_instant(one.texts.get("DTSERVER", "")) for one in around]
        return files.StatementFile(
            format="ofx",
            account=StatementAccount(
                bank=files.clean_text(account.get("BANKID", "")),
                branch=files.clean_text(account.get("BRANCHID", "")),
                number=files.clean_text(_need(account, "ACCTID", line)),
                type=read_type(files.clean_text(account.get("ACCTTYPE", ""))),
            ),
            first_on=first_on,
            last_on=last_on,
            # It is the balance before the span, regardless of its hour.
            opening=opening and files.StatedBalance(cents=opening.cents, on=first_on - timedelta(days=1)),
            closing=closing,
            items=self._items.items,
            perhaps_texts=frozenset(self._doubtful),
            made_at=next(iter(made_at), None),
            notes=(*self._notes, *files.note_outside((first_on, last_on), self._items.items)),
        )

    def _read_day(self, element: _Aggregate, name: str) -> date | None:
        text = element.texts.get(name)
        parsed = None if text is None else parse_date(text, name, element.line)
        if text is not None and parsed is None:
            self._notes.append(f"line {element.line}: {name}: {text[:40]!r} is no date, and is passed over")
        return None if parsed is None else parsed[0]

    def _read_balance(self, name: str, amount: str) -> files.StatedBalance | None:
        read: set[files.StatedBalance] = set()
        for element in self._found.get(name, ()):
            text, on = element.texts.get(amount, ""), self._read_day(element, "DTASOF")
            if on is None or not any(map(str.isdigit, text)):
                rule = f"{name}: no balance is read, for its {amount if on else 'DTASOF'} is missing or empty"
                self._notes.append(f"line {element.line}: {rule}")
            else:
                read.add(files.StatedBalance(cents=files.parse_cents(text, amount, element.line), on=on))
        if len(read) > 1:
            raise files.InvalidStatement(f"{name}: there are two that differ", self._found[name][-1].line)
        return next(iter(read), None)


def read_ofx(content: bytes) -> files.StatementFile:
    """Read the statements of bank accounts; ``InvalidStatement`` if it is none, or is ambiguous."""
    files.check_content(content)
    return _Reader(*list_tags(content)).read()


def _need(texts: dict[str, str], name: str, line: int) -> str:
    text = texts.get(name)
    if text is None:
        raise files.InvalidStatement(f"{name}: is missing", line)
    return text
