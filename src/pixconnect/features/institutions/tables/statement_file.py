"""The tables of statement files that were read, and of the forms of them that a person has confirmed."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final, LiteralString

from pixconnect.features.institutions.rules.recorded_file import FileSource, RecordedFile
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

FILE: Final = Table(
    "institution_file",
    RecordedFile,
    """
    institution_id smallint, digest bytea, name text, format text, is_own boolean, first_on date, last_on date,
    items_count integer, same_ids_count integer, other_ids_count integer, recorded_at timestamptz
    """,
    key=("institution_id", "digest"),
)

_INSERT_FILE: Final[LiteralString] = f"""
    insert into institution_file ({FILE.names}) values ({FILE.parameters}) on conflict do nothing
"""

_FIND_FIRST_READING: Final[LiteralString] = """
    select recorded_at from institution_file where institution_id = $1 and digest = $2
"""


_LIST_FILES: Final[LiteralString] = f"""
    select {FILE.select} from institution_file where institution_id = $1 and $2 between first_on and last_on
    order by recorded_at desc, digest limit 20
"""


async def insert_file(connection: Connection, file: RecordedFile) -> None:
    await connection.execute(_INSERT_FILE, *FILE.values(file))


async def list_files(connection: Connection, institution_id: int, day: date) -> list[RecordedFile]:
    """The last files that cover a day, the newest first."""
    return [FILE.read(row) for row in await connection.fetch(_LIST_FILES, institution_id, day)]


async def find_first_reading(connection: Connection, institution_id: int, digest: bytes) -> datetime | None:
    """When a file of these bytes was first read."""
    return await connection.fetchval(_FIND_FIRST_READING, institution_id, digest)


def _read_account(bank: str, branch: str, number: str, account_type: str, agreement: str) -> StatementAccount:
    return StatementAccount(bank=bank, branch=branch, number=number, type=account_type, agreement=agreement)


SOURCE: Final = Table(
    "institution_source",
    FileSource,
    """
    institution_id smallint, format text, is_own boolean, bank text, branch text, number text, account_type text,
    agreement text, confirmed_at timestamptz, confirmed_by text
    """,
    key=("institution_id", "format", "is_own"),
    read={"account": (_read_account, "bank", "branch", "number", "account_type", "agreement")},
    write={
        "bank": lambda source: source.account.bank,
        "branch": lambda source: source.account.branch,
        "number": lambda source: source.account.number,
        "account_type": lambda source: source.account.type,
        "agreement": lambda source: source.account.agreement,
    },
)

_LIST_SOURCES: Final[LiteralString] = f"""
    select {SOURCE.select} from institution_source where institution_id = $1 order by confirmed_at, format, is_own
"""
_INSERT_SOURCE: Final[LiteralString] = f"""
    insert into institution_source ({SOURCE.names}) values ({SOURCE.parameters}) on conflict do nothing
"""


async def list_sources(connection: Connection | Pool, institution_id: int) -> list[FileSource]:
    """The formats of files whose first file a person has confirmed, the first of them first."""
    return [SOURCE.read(row) for row in await connection.fetch(_LIST_SOURCES, institution_id)]


async def insert_source(connection: Connection, source: FileSource) -> None:
    """Keep that a form of file is confirmed; the first word stands."""
    await connection.execute(_INSERT_SOURCE, *SOURCE.values(source))


_ARE_IDS_STABLE: Final[LiteralString] = """
    select coalesce(sum(same_ids_count) > 0 and sum(other_ids_count) = 0, false) from institution_file where institution_id = $1
"""


async def are_ids_stable(connection: Connection, institution_id: int) -> bool:
    """Whether the account's files have named each line by one id, and have shown it."""
    return await connection.fetchval(_ARE_IDS_STABLE, institution_id)
