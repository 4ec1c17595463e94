"""CNAB 240, the statement format of banks for companies: records of 240 columns, in a lot for each statement of an account.

A lot's header has the balance before its lines, and its trailer the one after them, their count and their sums. Columns count
from 1, as in the layout. A line has no id of the bank's: its number in the lot restarts in each file.

Source: FEBRABAN, layout of 240 positions: "Extrato de conta corrente para conciliação bancária" (service 04, segment E).
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind
from pixconnect.features.institutions.statement_files import statement_file as files
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.platform.base.clock import SAO_PAULO, to_day

_COLUMNS: Final = 240
_CATEGORIES: Final = dict[str, ItemKind](
    {"103": "reversal", "204": "reversal", "105": "fee", "120": "wire", "209": "wire", "202": "boleto"}
)
_NOT_SPENDABLE: Final = frozenset(("SSR", "SCR", "CDS"))  # natures of blocked or tied money


class _Record(Struct, frozen=True):
    line: int
    text: str

    def cut(self, first: int, last: int) -> str:
        return self.text[first - 1 : last].strip()

    def fail(self, rule: str) -> files.InvalidStatement:
        return files.InvalidStatement(rule, self.line)

    def read_number(self, first: int, last: int, field: str) -> int:
        """A whole number; 0 if blank."""
        digits = self.cut(first, last) or "0"
        if not (digits.isascii() and digits.isdigit()):
            raise self.fail(f"{field} (columns {first} to {last}): {digits!r} is no number")
        return int(digits)

    def read_cents(self, field: str) -> int:
        """Read the amount and its direction, in the same columns of balances and lines."""
        cents, direction = self.read_number(151, 168, field), self.cut(169, 169).upper()
        if cents > AMOUNT_MAX_CENTS:
            raise self.fail(f"{field} (columns 151 to 168): is more than {AMOUNT_MAX_CENTS} cents")
        if cents and direction not in ("C", "D"):
            raise self.fail(f"{field} (column 169): {direction!r} is neither C nor D")
        return -cents if direction == "D" else cents

    def read_day(self, first: int, field: str) -> date | None:
        text = self.cut(first, first + 7)
        if not text.strip("0"):
            return None
        try:
            day = date(int(text[4:]), int(text[2:4]), int(text[:2]))
        except ValueError:
            day = None
        if day is None or day.year not in files.YEARS:
            raise self.fail(f"{field} (columns {first} to {first + 7}): {text!r} is no day as DDMMYYYY")
        return day

    @property
    def account(self) -> StatementAccount:
        digit = self.cut(71, 71) or self.cut(72, 72)
        number = self.cut(59, 70).lstrip("0")
        return StatementAccount(
            bank=files.clean_text(self.cut(1, 3)),
            branch=files.clean_text(self.cut(53, 57)),
            number=files.clean_text(f"{number}-{digit}" if digit else number),
            # 40 is the statement of a current account; other forms of a lot have no type.
            type="checking" if self.cut(12, 13) == "40" else "",
            agreement=files.clean_text(self.cut(33, 52)),
        )


class _Lot(Struct):
    header: _Record
    number: int
    opening: files.StatedBalance | None
    lines: list[tuple[_Record, int]]  # with their cents
    closing: files.StatedBalance | None = None


class _Statement(Struct):
    """The lots of one account."""

    lots: list[_Lot]
    items: files.ItemList
    notes: list[str]
    firsts: dict[tuple[str, str], int] = {}  # the number of the first lot with a balance and a line

    def conclude(self, header: _Record) -> files.StatementFile:
        items, made_at, notes = self.items.items, _find_instant(header), self.notes
        opening, closing = self.lots[0].opening, self.lots[-1].closing
        first_stated, last_stated = None, closing and closing.on
        if opening is not None:
            after = opening.on + timedelta(days=1)
            # Some date it on the day before the first, some on the first day.
            begins_there = (closing is not None and closing.on == opening.on) or any(item.day == opening.on for item in items)
            first_stated = opening.on if begins_there else after
            if opening == closing and not items:
                # Its day may have lines: the file proves its end alone, which is the beginning of the next day.
                notes = [*notes, f"the file has no line, and both balances are of {opening.on}: it tells only that day's end"]
                opening = None if isinstance(made_at, datetime) and to_day(made_at) < after else opening
                made_at = datetime.combine(after, time(0), SAO_PAULO)
                first_stated, last_stated, closing = after, after, None
        first_on, last_on = files.find_days((first_stated, last_stated), items)
        return files.StatementFile(
            format="cnab240",
            account=self.lots[0].header.account,
            first_on=first_on,
            last_on=last_on,
            opening=opening and files.StatedBalance(cents=opening.cents, on=first_on - timedelta(days=1)),
            closing=closing,
            items=items,
            made_at=made_at,
            notes=(*notes, *files.note_outside((first_on, last_on), items)),
            may_begin_later=opening is not None and opening.on == first_on < last_on,
        )


class _Reader:
    def __init__(self) -> None:
        self._statements: dict[StatementAccount, _Statement] = {}
        self._of = _Statement([], files.ItemList(), [])  # the statement of the last lot
        self._number = 0
        self._lot: _Lot | None = None

    def read(self, records: list[_Record]) -> files.StatementFile:
        last = records[-1]
        if records[0].cut(8, 8) != "0" or last.cut(8, 8) != "9":
            raise last.fail("the file is cut off: its first record must be of type 0, its last of type 9 (column 8)")
        for record in records[1:-1]:
            match record.cut(8, 8):
                case "1":
                    self._begin_lot(record)
                case "3":
                    self._add_line(record)
                case "5":
                    self._end_lot(record)
                case kind:
                    raise record.fail(f"a record of type {kind!r} (column 8) does not belong into a statement")
        if self._lot is not None or not self._statements:
            raise last.fail("the file is cut off: a lot has no trailer" if self._lot else "the file has no lot")
        stated_count = last.read_number(24, 29, "the count of records")
        if stated_count not in (0, len(records), len(records) - 2):
            raise last.fail(
                f"the trailer counts {stated_count} records, and the file has {len(records)}: lines are missing or doubled"
            )
        return files.join_statements([one.conclude(records[0]) for one in self._statements.values()])

    def _begin_lot(self, record: _Record) -> None:
        if self._lot is not None:
            raise record.fail("a lot begins before the one before it has ended")
        if (record.cut(9, 9).upper(), record.cut(10, 11)) != ("E", "04"):
            raise record.fail("the lot is no statement for reconciliation: columns 9 to 11 must be E04")
        files.check_currency(record.cut(171, 173), "the currency (columns 171 to 173)", record.line)
        number = record.read_number(4, 7, "the lot")
        if self._statements and number <= self._number:
            raise record.fail(f"lot {number} stands behind lot {self._number}: the file has it twice, or in disorder")
        self._number = number
        self._of = self._statements.setdefault(record.account, _Statement([], files.ItemList(), []))
        opening = self._read_balance(record, "the balance before the lot")
        if self._of.lots:
            last = self._of.lots[-1]
            # Only a balance shows that the lot does not repeat lines of a partial one.
            if opening is None or last.closing is None:
                rule = f"between lots {last.number} and {number} of one account a balance is partial or has no day"
                raise record.fail(f"{rule}: export them apart")
            if opening.cents != last.closing.cents:
                rule = f"lot {number} begins with {opening.cents} cents, and lot {last.number} before it ended with"
                raise record.fail(f"{rule} {last.closing.cents}: a lot is missing, or they are in disorder")
        self._lot = _Lot(header=record, number=number, opening=opening, lines=[])

    def _read_balance(self, record: _Record, name: str) -> files.StatedBalance | None:
        """Read a balance; ``None`` if it has no day, or is intraday."""
        cents = record.read_cents(name)
        try:
            on = record.read_day(143, f"the day of {name}")
        except files.InvalidStatement as error:
            self._of.notes.append(f"{error}, and the balance is not read")
            return None
        is_partial = record.cut(170, 170).upper() in ("P", "I")
        if on is None or is_partial:
            rule = "is a partial one (column 170)" if is_partial else "has no day (columns 143 to 150)"
            self._of.notes.append(f"line {record.line}: {name} {rule}, and is not read")
            return None
        return files.StatedBalance(cents=cents, on=on)

    def _add_line(self, record: _Record) -> None:
        lot = self._lot
        if lot is None or record.read_number(4, 7, "the lot") != lot.number:
            raise record.fail("the line stands outside of its lot (columns 4 to 7)")
        if record.cut(14, 14).upper() != "E":
            raise record.fail(f"segment {record.cut(14, 14)!r} (column 14) is no line of a statement")
        if record.cut(53, 71).strip("0") and record.cut(53, 71) != lot.header.cut(53, 71):
            raise record.fail(f"the line is of account {record.account.number}, and its lot of {lot.header.account.number}")
        lot.lines.append((record, record.read_cents("the amount")))

    def _end_lot(self, record: _Record) -> None:
        lot = self._lot
        if lot is None or record.read_number(4, 7, "the lot") != lot.number:
            raise record.fail("the trailer is of another lot (columns 4 to 7)")
        count = record.read_number(171, 176, "the count of records")
        if count not in (0, len(lot.lines), len(lot.lines) + 2):
            rule = f"the trailer counts {count} records, and the lot has {len(lot.lines) + 2}"
            raise record.fail(f"{rule}: lines are missing or doubled")
        stated = record.read_number(177, 194, "the debits"), record.read_number(195, 212, "the credits")
        summed = -sum(min(cents, 0) for _, cents in lot.lines), sum(max(cents, 0) for _, cents in lot.lines)
        if stated not in ((0, 0), summed):
            rule = (
                f"debits of {stated[0]} and credits of {stated[1]} cents, and the lot's lines have {summed[0]} and {summed[1]}"
            )
            raise record.fail(f"the trailer adds up {rule}")
        if (count, *stated) == (0, 0, 0) and lot.lines:
            rule = "the trailer counts and adds up nothing: only the balances check the lot"
            self._of.notes.append(f"line {record.line}: {rule}")
        for line, _ in (one for one in lot.lines if one[1]):
            # The first columns of a line have the number of its lot and its own.
            first = self._of.firsts.setdefault((lot.header.cut(143, 169), line.text[13:]), lot.number)
            if first != lot.number:
                raise line.fail(f"lot {lot.number} repeats the balance and this line of lot {first}: export it once")
        lot.closing = self._read_balance(record, "the balance after the lot")
        over = 0
        if lot.opening is not None and lot.closing is not None:
            over = lot.closing.cents - lot.opening.cents - summed[1] + summed[0]
        # Only where the balances agree without all of them.
        aside = {line.line: cents for line, cents in lot.lines if line.cut(109, 111).upper() in _NOT_SPENDABLE}
        aside = aside if over and over == -sum(aside.values()) else {}
        if over:
            rule = f"the balance after the lot is {over} cents above the sum of its lines"
            why = ": those of natures SSR, SCR and CDS (columns 109 to 111) are not spendable, and are set aside"
            self._of.notes.append(f"line {record.line}: {rule}{why if aside else ''}")
        for line, cents in lot.lines:
            self._of.items.add(None if line.line in aside else _make_item(line, cents), line.line)
        self._of.lots.append(lot)
        self._lot = None


def read_cnab(content: bytes) -> files.StatementFile:
    """Read the statements of accounts; each lot of one continues where the one before it ended.

    Raises:
        InvalidStatement: It is none, or its trailers count or add up other lines than it has.
    """
    files.check_content(content)
    records = [_Record(number, line.rstrip().ljust(_COLUMNS)) for number, line in files.split_lines(_decode(content))]
    for record in records:
        if len(record.text) > _COLUMNS:
            raise record.fail(f"the line has {len(record.text)} columns, and must have {_COLUMNS}")
    return _Reader().read(records)


def _decode(content: bytes) -> str:
    # Columns are characters: decoding as UTF-8 by mistake would shift those behind an accent. A file with 240 bytes in each
    # line is not UTF-8, though a payer's letters may look like both.
    if all(len(line) in (0, _COLUMNS) for line in content.splitlines()):
        return content.decode("latin-1")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _find_instant(header: _Record) -> datetime | date | None:
    """Find when the file was made, by columns that no line depends on."""
    try:
        day, at = header.read_day(144, "the day of the file"), time.fromisoformat(header.cut(152, 157))
    except ValueError:
        return None
    return None if day is None else files.check_instant(datetime.combine(day, at))


def _make_item(record: _Record, cents: int) -> InstitutionItem | None:
    if cents == 0:
        return None
    day = record.read_day(143, "the day") or record.read_day(135, "the accounting day")
    if day is None:
        raise record.fail("the day (columns 143 to 150) is missing")
    history, document = record.cut(177, 201), record.cut(202, 240)
    parts = [history, document if document.strip("0") else "", _read_origin(record)]
    # Lines of another balance than the spendable one have its nature.
    parts.append(record.cut(109, 111).removeprefix("DPV"))
    item = InstitutionItem(
        item_id="",
        day=day,
        settled_at=None,
        direction="IN" if cents > 0 else "OUT",
        amount_cents=abs(cents),
        kind=_find_kind(record.cut(170, 172), history),
        text=files.clean_text(" | ".join(files.clean_text(part) for part in parts if part)),
    )
    return files.add_found_names(item, (history,), (document,))


def _read_origin(record: _Record) -> str:
    """Read the complement: with type 01 the bank, branch and account of the counterparty, otherwise a text."""
    written = record.cut(114, 133)
    if not written.strip("0 ") or record.cut(112, 113) in ("", "00"):
        return ""
    if record.cut(112, 113) != "01":
        return written
    return "/".join(record.cut(first, last).lstrip("0") for first, last in ((114, 116), (117, 121), (122, 133))).rstrip("/")


def _find_kind(category: str, history: str) -> ItemKind:
    """By the bank's category if it names one of our kinds; for a return of a Pix the text is more precise than "reversal"."""
    named, kind = _CATEGORIES.get(category), files.find_kind(history)
    if named is None or (named == "reversal" and kind == "refund") or (named in ("wire", "boleto") and kind != "other"):
        return kind
    return named
