"""A file's form is known by its own words."""

import time
from collections.abc import Callable

import pytest

from pixconnect.domain.institutions.statement_files.statement_file import InvalidStatement
from pixconnect.domain.institutions.statement_files.statement_format import read_statement_file
from support.cnab import make_cnab
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
            for unit in (
                b"<A>",
                b"</A>",
                b"<BAL>",
                b"</STMTTRN>",
                b"<STMTTRNP>",
                b"<STMTTRN><TRNAMT>0",
                b"<",
                b"<!--",
                b'<A b="',
            )
        ],
        (lambda: _HEAD + b"<STMTTRN><MEMO>" + b"<b>" * (_LENGTH // 3), "line 1: STMTTRN: has more than 400 elements"),
        (
            lambda: _between(make_ofx(make_ofx_line()), b"</OFX>", b"<A>"),
            "line 22: OFX: has more than 400 elements",
        ),
        (lambda: make_ofx(make_ofx_line()) * 2, "line 40: BANKTRANLIST: there are two"),
        (lambda: make_ofx(make_ofx_line(memo="\0")), "line 17: there is a NUL"),
        (lambda: _between(make_camt(make_camt_entry()), b"</Stmt>", b"<Ntry><x/></Ntry>"), "line 9: Amt: is missing"),
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
    # Some 10 s on the slowest machine that we try; a reader that looks at a part twice takes hours.
    assert time.process_time() - begun_s < 60


@pytest.mark.parametrize("content", [b"", b"  \n", b"%PDF-1.7", b"date;amount\n2026-11-01;1.00", b"\0" * 100])
def test_what_is_none_of_them_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidStatement):
        read_statement_file(content)
