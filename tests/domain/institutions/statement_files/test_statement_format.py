"""A file's form is known by its own words."""

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


@pytest.mark.parametrize("content", [b"", b"  \n", b"%PDF-1.7", b"date;amount\n2026-11-01;1.00", b"\0" * 100])
def test_what_is_none_of_them_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidStatement):
        read_statement_file(content)
