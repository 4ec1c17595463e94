"""The table of files that institutions were asked to write of days that are over."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool


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

_LIST: Final[LiteralString] = f"""
    select {ASKED.select} from institution_day_file where institution_id = $1 and day >= $2
"""


async def list_since(pool: Connection | Pool, institution_id: int, first_on: date) -> dict[date, DayFile]:
    found = [ASKED.read(row) for row in await pool.fetch(_LIST, institution_id, first_on)]
    return {asked.day: asked for asked in found}


_FIND_FAILURE: Final[LiteralString] = """
    select asked.day || ': ' || asked.failure from institution_day_file as asked
    left join institution_day as recorded using (institution_id, day)
    where institution_id = $1 and asked.failure is not null
        and coalesce(recorded.state, 'open') not in ('closed', 'closed_with_cases')
    order by day desc limit 1
"""


async def find_failure(connection: Connection, institution_id: int) -> str | None:
    """Why the file of the last day that has none cannot be read, with the day; a day that was closed by hand needs none."""
    return await connection.fetchval(_FIND_FAILURE, institution_id)


_FIND_UNCONFIRMED: Final[LiteralString] = """
    select min(asked_at) from institution_day_file as asked
    where institution_id = $1 and ended_at is null
        and not exists (select from institution_source where institution_id = $1 and is_own)
"""


async def find_unconfirmed(connection: Connection, institution_id: int) -> datetime | None:
    """Since when the institution's own files wait for a person to confirm the first one; ``None`` if they do not."""
    return await connection.fetchval(_FIND_UNCONFIRMED, institution_id)


_WRITE: Final[LiteralString] = f"""
    insert into institution_day_file ({ASKED.names}) values ({ASKED.parameters})
    on conflict (institution_id, day) do update set
        name = excluded.name, asked_at = excluded.asked_at, ended_at = excluded.ended_at, failure = excluded.failure
"""


async def write(pool: Pool, asked: DayFile) -> None:
    await pool.execute(_WRITE, *ASKED.values(asked))
