"""A file's format is recognised by its contents."""

import time
from collections.abc import Callable
from datetime import date, datetime

import pytest
from msgspec import structs

from pixconnect.features.institutions.service.statement_account import read_statement_file
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatedBalance
from support.bank_simulator import at_hour
from support.cnab import CnabLot, make_cnab
from support.statement_files import make_camt, make_camt_entry, make_efi_file, make_ofx, make_ofx_line


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (make_ofx(make_ofx_line()), "ofx"),
        (b"\r\n" + make_ofx(make_ofx_line()), "ofx"),
        (b"\xef\xbb\xbf" + make_efi_file(), "efi"),
        (make_camt(make_camt_entry()), "camt.053"),
        (make_cnab(), "cnab240"),
        (b"\xef\xbb\xbf\r\n" + make_cnab(), "cnab240"),
    ],
)
def test_each_form_is_known(content: bytes, name: str) -> None:
    assert read_statement_file(content).format == name


DAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        *[
            (make_ofx(make_ofx_line(), made=made), told)
            for made, told in [
                ("20261121080000[-3:BRT]", "2026-11-21T08:00-03:00"),
                ("20261121080000", "2026-11-21T08:00-03:00"),
                ("20261121013000[0:GMT]", "2026-11-20T22:30-03:00"),
                # A date has no hour, and programs write midnight for it.
                ("20261121", DAY), ("20261121000000[0:GMT]", DAY), ("20261121000000", DAY), ("0", None), ("010726", None),
            ]
        ],
        (make_camt(), "2026-11-03T08:00-03:00"),
        (make_camt().replace(b"<Id>1</Id>", b"<Id>1</Id><CreDtTm>2026-11-04T09:00:00</CreDtTm>"), "2026-11-04T09:00-03:00"),
        (make_camt().replace(b"08:00:00", b"8h"), None),
        (make_cnab(CnabLot()), "2026-11-03T08:15-03:00"),
        (make_cnab(CnabLot()).replace(b"03112026081500", b"99999999999999"), None),
        (make_efi_file(), None),
    ],
)  # fmt: skip
def test_a_file_gives_the_instant_at_which_it_was_made(content: bytes, told: str | date | None) -> None:
    assert read_statement_file(content).made_at == (datetime.fromisoformat(told) if isinstance(told, str) else told)


READ_AT = at_hour(date(2026, 11, 25), 9)


@pytest.mark.parametrize(
    ("made", "closing_on", "as_of", "booked_until"),
    [
        ("20261103080000", date(2026, 11, 20), at_hour(date(2026, 11, 3), 8), date(2026, 11, 3)),
        # After its import or before its first day: the clock is wrong.
        ("20261126080000", date(2026, 11, 20), READ_AT, date(2026, 11, 25)),
        ("20261020080000", date(2026, 11, 20), READ_AT, date(2026, 11, 25)),
        ("0", date(2026, 11, 20), READ_AT, date(2026, 11, 20)),
        ("0", date(2026, 11, 30), READ_AT, date(2026, 11, 25)),
        ("20261020", date(2026, 10, 31), READ_AT, date(2026, 11, 25)),
        # What is dated after its day alone is announced.
        ("20261103", date(2026, 11, 20), READ_AT, date(2026, 11, 3)),
        ("20261103", None, READ_AT, date(2026, 11, 3)),
    ],
)
def test_a_file_speaks_of_the_instant_at_which_it_was_made_or_first_read(
    made: str, closing_on: date | None, as_of: datetime, booked_until: date
) -> None:
    file = read_statement_file(make_ofx(make_ofx_line(), made=made))
    file = structs.replace(file, closing=closing_on and StatedBalance(cents=1, on=closing_on))
    assert file.date(READ_AT) == (as_of, booked_until)


_LENGTH = 20 * 1024 * 1024
_HEAD = b"<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><BANKACCTFROM><ACCTID>1</BANKACCTFROM><BANKTRANLIST>"


def _between(content: bytes, mark: bytes, put: bytes) -> bytes:
    before, _, behind = content.partition(mark)
    return before + put * (_LENGTH // len(put)) + mark + behind


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "rule"),
    [
        *[
            (lambda unit=unit: _HEAD + unit * (_LENGTH // len(unit)), "line 1: ")
            for unit in b'<A>|</A>|<BAL>|</STMTTRN>|<STMTTRNP>|<STMTTRN><TRNAMT>0|<|<!--|<A b="'.split(b"|")
        ],
        (lambda: _HEAD + b"<STMTTRN><MEMO>" + b"<b>" * (_LENGTH // 3), "line 1: TRNAMT: is missing"),
        (lambda: _between(make_ofx(make_ofx_line()), b"</OFX>", b"<A>"), "line 22: OFX: has more than 400 elements"),
        (lambda: make_ofx(make_ofx_line(memo="\0")), "line 17: there is a NUL"),
        (lambda: _between(make_camt(make_camt_entry()), b"</Stmt>", b"<Ntry><x/></Ntry>"), "line 9: Amt: is missing"),
        (lambda: _between(make_camt(make_camt_entry()), b"</Stmt>", b"<x/>"), "there are more than 2000000 elements"),
        (lambda: make_camt(make_camt_entry()) * 2, "line 10: it is no well-formed XML: junk after document element"),
        (lambda: make_camt(make_camt_entry())[:-20], "it is no well-formed XML"),
        (lambda: make_cnab() + b"1" * _LENGTH, "line 6: the line has"),
        (lambda: make_cnab() + b"1\r\n" * (_LENGTH // 3), "there are more than 500000 lines"),
        (lambda: make_cnab() * 2, "line 5: a record of type '9' (column 8) does not belong into a statement"),
        (lambda: b"CA;" + b"\n" * _LENGTH, "there are more than 500000 lines"),
    ],
)
def test_a_hostile_file_is_refused_by_its_place_in_bounded_time(make: Callable[[], bytes], rule: str) -> None:
    content, begun_s = make(), time.process_time()
    with pytest.raises(InvalidStatement) as caught:
        read_statement_file(content)
    assert rule in str(caught.value)
    # About 10 s on the slowest tested machine; a reader that reads a part twice takes hours.
    assert time.process_time() - begun_s < 60


@pytest.mark.parametrize("content", [b"", b"  \n", b"%PDF-1.7", b"date;amount\n2026-11-01;1.00", b"\0" * 100])
def test_what_is_none_of_them_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidStatement, match=r"conciliation file, CNAB 240, camt\.053, OFX$|empty|UTF-16"):
        read_statement_file(content)


def test_days_beyond_the_calendar_are_no_days() -> None:
    opening = (
        '<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">1.00</Amt><CdtDbtInd>CRDT</CdtDbtInd>'
        "<Dt><Dt>0001-01-01</Dt></Dt></Bal>"
    )
    found = read_statement_file(make_camt(make_camt_entry(), first="0001-01-01", balances=opening))
    assert (found.first_on, found.opening, len(found.notes)) == (date(2026, 11, 2), None, 3)
    with pytest.raises(InvalidStatement, match=r"^line 7: BookgDt: '0001-01-01' is no date"):
        read_statement_file(make_camt(make_camt_entry(at="0001-01-01")))
    with pytest.raises(InvalidStatement, match="no calendar"):
        read_statement_file(make_efi_file(day="0001-01-01", balances="SD0;1.00;0001-01-01"))
    made_long_ago = make_camt(make_camt_entry()).replace(b"2026-11-03T08:00:00-03:00", b"0001-01-01T01:00:00Z")
    assert read_statement_file(made_long_ago).made_at is None


@pytest.mark.parametrize("made", ["00010101000000", "99991231235959[+99]", "20261131120000", "20261104250000[-3]", "<x>", ""])
def test_an_impossible_instant_of_its_making_refuses_no_file(made: str) -> None:
    found = read_statement_file(make_ofx(make_ofx_line(), made=made))
    assert (len(found.items), found.made_at) == (1, date(2026, 11, 4) if "25" in made[8:10] else None)
