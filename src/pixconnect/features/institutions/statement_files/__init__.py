"""The formats of institutions' statement files that are read."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pixconnect.features.institutions.statement_files.camt import read_camt
from pixconnect.features.institutions.statement_files.cnab import read_cnab
from pixconnect.features.institutions.statement_files.efi_file import read_efi_file
from pixconnect.features.institutions.statement_files.ofx import read_ofx
from pixconnect.features.institutions.statement_files.statement_file import StatementFile


class ReadFormat(NamedTuple):
    name: str  # for people; the stored one is in the reader's records
    start: re.Pattern[bytes]  # the beginning of its files has it
    read: Callable[[bytes], StatementFile]


FORMATS: Final = (
    ReadFormat("Efi's conciliation file", re.compile(rb"\ACA;"), read_efi_file),
    # The header of a file, whose first lot has the number 0.
    ReadFormat("CNAB 240", re.compile(rb"\A[0-9]{3}00000[^\r\n]{135,}(?:[\r\n]|\Z)"), read_cnab),
    ReadFormat("camt.053", re.compile(rb"camt\.053"), read_camt),
    ReadFormat("OFX", re.compile(rb"(?i)OFX"), read_ofx),
)
