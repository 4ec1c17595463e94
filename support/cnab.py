"""CNAB 240 statements, written field by field by FEBRABAN's layout: valid by default, and one argument changes one thing.

Each record is a list of fields with their widths, in the layout's order; the reader cuts by column instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

BANK, BRANCH, NUMBER, DIGIT = "341", 1, 12345, "6"
FIRST, LAST = date(2026, 11, 1), date(2026, 11, 2)


@dataclass(frozen=True, kw_only=True)
class CnabLine:
    amount_cents: int = 1050  # below zero for a debit
    day: date = LAST
    category: str = "209"
    history_code: str = "0821"
    history: str = "TED RECEBIDA"
    document: str = "451065"
    nature: str = "DPV"
    complement_kind: str = "00"
    complement: str = ""
    accounting_day: date | None = None


@dataclass(frozen=True, kw_only=True)
class CnabLot:
    lines: Sequence[CnabLine] = ()
    opening_cents: int = 10_000
    opening_on: date = FIRST
    closing_on: date = LAST
    closing_cents: int | None = None
    status: str = "F"
    number: int = NUMBER
    adds_up: bool = True  # some banks fill counts and sums with zeros


def _number(value: int, width: int) -> str:
    return str(value).rjust(width, "0")


def _text(value: str, width: int) -> str:
    return value.ljust(width)[:width]


def _day(value: date | None) -> str:
    return "0" * 8 if value is None else f"{value:%d%m%Y}"


def _cents(value: int) -> str:
    return _number(abs(value), 18) + ("D" if value < 0 else "C")


def _record(*fields: str) -> str:
    record = "".join(fields).ljust(240)
    assert len(record) == 240
    return record


def _company(number: int) -> str:
    """Kind and number of registration, agreement, branch and account with their digits: columns 18 to 72."""
    return "2" + _number(11222333000181, 14) + _text("", 20) + _number(BRANCH, 5) + " " + _number(number, 12) + DIGIT + " "


def make_cnab_records(*lots: CnabLot, lot_numbers: Sequence[int] = ()) -> list[str]:
    records = [
        _record(
            *(
                BANK, "0000", "0", _text("", 9), _company(NUMBER), _text("LOJA LTDA", 30), _text("BANCO", 30),
                _text("", 10),
            ),
            *("2", _day(LAST + timedelta(days=1)), "081500", _number(1, 6), "103", _number(0, 5)),
        )
    ]  # fmt: skip
    for count, lot in enumerate(lots, 1):
        records += _make_lot(lot, _number(lot_numbers[count - 1] if lot_numbers else count, 4))
    total = _number(len(records) + 1, 6)
    records.append(_record(BANK, "9999", "9", _text("", 9), _number(len(lots), 6), total, _number(len(lots), 6)))
    return records


def _make_lot(lot: CnabLot, lot_number: str) -> list[str]:
    balance = lot.opening_cents + sum(line.amount_cents for line in lot.lines)
    closing = balance if lot.closing_cents is None else lot.closing_cents
    header = _record(
        *(
            BANK, lot_number, "1", "E", "04", "40", "033", " ", _company(lot.number), _text("LOJA LTDA", 30),
            _text("", 40),
        ),
        *(_day(lot.opening_on), _cents(lot.opening_cents), lot.status, "BRL", _number(1, 5)),
    )  # fmt: skip
    lines = [
        _record(
            *(BANK, lot_number, "3", _number(number % 100_000, 5), "E", _text("", 3), _company(lot.number)),
            *(
                _text("LOJA LTDA", 30), _text("", 6), _text(line.nature, 3), line.complement_kind,
                _text(line.complement, 20),
            ),
            *(
                "N", _day(line.accounting_day), _day(line.day), _cents(line.amount_cents), line.category,
                line.history_code,
            ),
            *(_text(line.history, 25), _text(line.document, 39)),
        )
        for number, line in enumerate(lot.lines, 1)
    ]  # fmt: skip
    debits = sum(-line.amount_cents for line in lot.lines if line.amount_cents < 0)
    credits_ = sum(line.amount_cents for line in lot.lines if line.amount_cents > 0)
    count, debits, credits_ = (len(lines) + 2, debits, credits_) if lot.adds_up else (0, 0, 0)
    trailer = _record(
        *(BANK, lot_number, "5", _text("", 9), _company(lot.number), _text("", 16), *[_number(0, 18)] * 3),
        *(
            _day(lot.closing_on), _cents(closing), lot.status, _number(count, 6), _number(debits, 18),
            _number(credits_, 18),
        ),
    )  # fmt: skip
    return [header, *lines, trailer]


def make_cnab(*lots: CnabLot, codec: str = "latin-1", line_end: str = "\r\n", lot_numbers: Sequence[int] = ()) -> bytes:
    """A file of some lots; by default of one lot with one credit."""
    records = make_cnab_records(*(lots or (CnabLot(lines=[CnabLine()]),)), lot_numbers=lot_numbers)
    return "".join(record + line_end for record in records).encode(codec)
