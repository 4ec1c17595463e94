"""Detects the format of a statement file by its contents: file names prove little."""

from __future__ import annotations

from pixconnect.features.institutions.statement_files import statement_file
from pixconnect.features.institutions.statement_files.camt import read_camt
from pixconnect.features.institutions.statement_files.cnab import is_cnab, read_cnab
from pixconnect.features.institutions.statement_files.efi_file import read_efi_file
from pixconnect.features.institutions.statement_files.ofx import read_ofx
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatementFile

_START_LENGTH: int = 4096


def read_statement_file(content: bytes) -> StatementFile:
    """Read an OFX, a camt.053, a CNAB 240 or Efi's conciliation file; ``InvalidStatement`` if it is no whole one."""
    statement_file.check_content(content)
    try:
        return _read(content)
    except OverflowError:
        raise InvalidStatement(
            "it has a day that no calendar can compute with, such as one of the year 1 or 9999"
        ) from None


def _read(content: bytes) -> StatementFile:
    start = content[:_START_LENGTH].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"CA;"):
        return read_efi_file(content)
    if is_cnab(start):
        return read_cnab(content)
    if b"camt.053" in start:
        return read_camt(content)
    if b"OFX" in start.upper():
        return read_ofx(content)
    raise InvalidStatement("it is neither OFX, nor camt.053, nor a CNAB 240 statement, nor Efi's conciliation file")
