"""The table of statement files that were read, and what they have shown of the ids of lines."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.institutions.joining import RecordedFile
from pixconnect.domain.institutions.statement_files.statement_file import StatementAccount
from pixconnect.foundation.pool import Connection
from pixconnect.store.frame.table import Table


def _read_account(bank: str, branch: str, number: str) -> StatementAccount:
    return StatementAccount(bank=bank, branch=branch, number=number)


FILE: Final = Table(
    "institution_file",
    RecordedFile,
    """
    institution_id smallint, digest bytea, format text, bank text, branch text, number text, first_on date, last_on date,
    items_count integer, same_ids_count integer, other_ids_count integer, recorded_at timestamptz
    """,
    key=("institution_id", "digest"),
    read={"account": (_read_account, "bank", "branch", "number")},
    write={
        "bank": lambda file: file.account.bank,
        "branch": lambda file: file.account.branch,
        "number": lambda file: file.account.number,
    },
)

_INSERT_FILE: Final[LiteralString] = f"""
    insert into institution_file ({FILE.names}) values ({FILE.parameters}) on conflict do nothing
"""
_FIND_FILE: Final[LiteralString] = f"""
    select {FILE.select} from institution_file where institution_id = $1 order by recorded_at desc limit 1
"""

_FIND_FIRST_READING: Final[LiteralString] = """
    select recorded_at from institution_file where institution_id = $1 and digest = $2
"""


async def insert_file(connection: Connection, file: RecordedFile) -> None:
    await connection.execute(_INSERT_FILE, *FILE.values(file))


async def find_first_reading(connection: Connection, institution_id: int, digest: bytes) -> datetime | None:
    """When a file of these bytes was first read."""
    return await connection.fetchval(_FIND_FIRST_READING, institution_id, digest)


async def find_last_file(connection: Connection, institution_id: int) -> RecordedFile | None:
    return FILE.read_found(await connection.fetchrow(_FIND_FILE, institution_id))


_ARE_IDS_STABLE: Final[LiteralString] = """
    select coalesce(sum(same_ids_count) > 0 and sum(other_ids_count) = 0, false) from institution_file where institution_id = $1
"""


async def are_ids_stable(connection: Connection, institution_id: int) -> bool:
    """Whether the account's files have named each line by one id, and have shown it."""
    return await connection.fetchval(_ARE_IDS_STABLE, institution_id)
