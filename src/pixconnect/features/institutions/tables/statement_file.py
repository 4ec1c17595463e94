"""The tables of recorded statement files, their confirmed forms, requested daily files, and reserves of waiting debits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import FileSource, RecordedFile
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


async def insert_file(connection: Connection, file: RecordedFile) -> None:
    await connection.execute(_INSERT_FILE, *FILE.values(file))


async def list_files(connection: Connection, institution_id: int, day: date) -> list[RecordedFile]:
    """List the last files that cover a day, newest first."""
    which: LiteralString = (
        "where institution_id = $1 and $2 between first_on and last_on order by recorded_at desc, digest limit 20"
    )
    return await FILE.find_all(connection, which, institution_id, day)


async def find_first_reading(connection: Connection, institution_id: int, digest: bytes) -> datetime | None:
    file = await FILE.find(connection, "where institution_id = $1 and digest = $2", institution_id, digest)
    return None if file is None else file.recorded_at


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

_INSERT_SOURCE: Final[LiteralString] = f"""
    insert into institution_source ({SOURCE.names}) values ({SOURCE.parameters}) on conflict do nothing
"""


async def list_sources(connection: Connection | Pool, institution_id: int) -> list[FileSource]:
    """List the formats of files whose first file an operator has confirmed, oldest first."""
    which: LiteralString = "where institution_id = $1 order by confirmed_at, format, is_own"
    return await SOURCE.find_all(connection, which, institution_id)


async def insert_source(connection: Connection, source: FileSource) -> None:
    """Record that a form of file is confirmed; the first confirmation stands."""
    await connection.execute(_INSERT_SOURCE, *SOURCE.values(source))


_ARE_IDS_STABLE: Final[LiteralString] = """
    select coalesce(sum(same_ids_count) > 0 and sum(other_ids_count) = 0, false) from institution_file where institution_id = $1
"""


async def are_ids_stable(connection: Connection, institution_id: int) -> bool:
    """Whether the account's files have provably named each line by one id."""
    return await connection.fetchval(_ARE_IDS_STABLE, institution_id)


# Waiting debits of statements, and the blocks that reserve their sums: ``features/institutions/service/statement_posting.py``.

# Those that need an answer by the table of outcomes.
WAITING: Final[LiteralString] = """
    select * from institution_item
    where joined_kind is null and direction = 'OUT' and waits in ('changed', 'perhaps_balance', 'perhaps_known', 'contradicts',
        'perhaps_struck', 'perhaps_back', 'perhaps_text',
        'separated', 'opening_day', 'not_yet_read', 'order_unknown', 'could_be_ours', 'day_not_over')
"""
RESERVED: Final[LiteralString] = "select * from block where state = 'open' and line_id is not null"

_DIFFERS: Final[LiteralString] = f"""
    select exists (
        select from ({WAITING} and institution_id = $1) as item
        full join ({RESERVED} and institution_id = $1) as block on block.line_id = item.item_id
        where item.item_id is null or block.line_id is null
    )
"""


async def differs(pool: Pool, institution_id: int) -> bool:
    """Whether a waiting debit of an account lacks a block, or a block has no waiting debit."""
    return await pool.fetchval(_DIFFERS, institution_id)


async def list_waiting(connection: Connection, institution_id: int) -> dict[str, int]:
    """List the waiting debits' cents by id, oldest first."""
    rows = await connection.fetch(
        f"select item_id, amount_cents from ({WAITING} and institution_id = $1) as item order by day, item_id",
        institution_id,
    )
    return {row["item_id"]: row["amount_cents"] for row in rows}


async def list_reserved(connection: Connection, institution_id: int, item_ids: Sequence[str]) -> dict[str, int]:
    """List the cents reserved for some debits, by id; debits without a reserve are left out."""
    rows = await connection.fetch(f"{RESERVED} and institution_id = $1 and line_id = any($2)", institution_id, item_ids)
    return {row["line_id"]: row["covered_cents"] for row in rows}


# The table of daily files requested from institutions.


class DayFile(Struct, frozen=True, kw_only=True):
    institution_id: int
    day: date
    name: str
    asked_at: datetime
    ended_at: datetime | None = None
    failure: str | None = None


ASKED: Final = Table(
    "institution_day_file",
    DayFile,
    "institution_id smallint, day date, name text, asked_at timestamptz, ended_at timestamptz, failure text",
    key=("institution_id", "day"),
)


async def list_since(pool: Connection | Pool, institution_id: int, first_on: date) -> dict[date, DayFile]:
    found = await ASKED.find_all(pool, "where institution_id = $1 and day >= $2", institution_id, first_on)
    return {asked.day: asked for asked in found}


_FIND_FAILURE: Final[LiteralString] = """
    select asked.day || ': ' || asked.failure from institution_day_file as asked
    left join institution_day as recorded using (institution_id, day)
    where institution_id = $1 and asked.failure is not null
        and coalesce(recorded.state, 'open') not in ('closed', 'closed_with_cases')
    order by day desc limit 1
"""


async def find_failure(connection: Connection, institution_id: int) -> str | None:
    """Find why the last missing day's file cannot be read, with the day; a day that was closed by hand needs none."""
    return await connection.fetchval(_FIND_FAILURE, institution_id)


_FIND_UNCONFIRMED: Final[LiteralString] = """
    select min(asked_at) from institution_day_file as asked
    where institution_id = $1 and ended_at is null
        and not exists (select from institution_source where institution_id = $1 and is_own)
"""


async def find_unconfirmed(connection: Connection, institution_id: int) -> datetime | None:
    """Find since when the institution's own files wait for an operator's first confirmation; ``None`` if they do not."""
    return await connection.fetchval(_FIND_UNCONFIRMED, institution_id)


_WRITE: Final[LiteralString] = f"""
    insert into institution_day_file ({ASKED.names}) values ({ASKED.parameters})
    on conflict (institution_id, day) do update set
        name = excluded.name, asked_at = excluded.asked_at, ended_at = excluded.ended_at, failure = excluded.failure
"""


async def write(pool: Pool, asked: DayFile) -> None:
    await pool.execute(_WRITE, *ASKED.values(asked))
