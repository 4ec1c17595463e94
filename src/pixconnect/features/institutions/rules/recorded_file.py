"""Statement files that were read, and the forms of files that operators have confirmed."""

from __future__ import annotations

from datetime import date, datetime

from msgspec import Struct

from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import ItemSource


class RecordedFile(Struct, frozen=True, kw_only=True):
    """A recorded statement file."""

    institution_id: int
    digest: bytes
    """SHA-256 of it."""
    name: str
    """As named by the operator's machine or the institution."""
    format: ItemSource
    is_own: bool
    """The institution wrote it, and the worker fetched it."""
    first_on: date
    last_on: date
    items_count: int
    same_ids_count: int = 0
    """Known lines that were repeated with the same id."""
    other_ids_count: int = 0
    """Lines with another id than before, and ids that two lines share."""
    recorded_at: datetime


class FileSource(Struct, frozen=True, kw_only=True):
    """A form of an account's statement files, whose first file an operator has confirmed."""

    institution_id: int
    format: ItemSource
    is_own: bool
    """The institution writes such files, and the worker fetches them; otherwise operators bring them."""
    account: StatementAccount
    """As the first file names it."""
    confirmed_at: datetime
    confirmed_by: str
