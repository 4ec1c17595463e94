"""The cells that the home cell knows, in its table ``cell``, which is empty in every other cell.

The home cell itself is no row: its number is 0, and its address is that of the settings. A row is added before anything is done
with its database, and is ``OPENING`` until that says the cell's number and identity; then it is served, also while it is
``MOVING`` to another address. The table is a list of where to go: which cell a database is, its own row ``installation``
decides (``find_claim``). Rows are never removed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.domain.frame.cell import CELLS_MAX
from pixconnect.domain.running.known_cell import CellFigures, KnownCell, began_at
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table, fetch_row

_LOCK_KEY: Final = 0x7078_6106
_ACCOUNTS_LOCK_KEY: Final = 0x7078_6107

CELL: Final = Table(
    "cell",
    KnownCell,
    "number smallint, name text, address text, identity uuid, state text, added_at timestamptz, other_address text, "
    "moving_since timestamptz",
    key=("number",),
)

_LIST: Final[LiteralString] = f"select {CELL.select} from cell order by number"


async def list_all(connection: Connection | Pool) -> list[KnownCell]:
    """All that the home cell knows, by number, also those that are being added."""
    return [CELL.read(row) for row in await connection.fetch(_LIST)]


async def list_open_cells(connection: Connection | Pool) -> list[KnownCell]:
    """Those that may be used; one that is being added has nothing yet."""
    return [known for known in await list_all(connection) if known.is_open]


_LIST_OF_ANY_VERSION: Final[LiteralString] = "select to_jsonb(cell)::text as row from cell order by number"


async def list_open_cells_of_any_version(connection: Connection) -> list[KnownCell]:
    """The same before the tables are those of this program: columns that came later are missing."""
    found = [msgspec.json.decode(row["row"], type=KnownCell) for row in await connection.fetch(_LIST_OF_ANY_VERSION)]
    return [known for known in found if known.is_open]


_FIND: Final[LiteralString] = f"select {CELL.select} from cell where name = $1"


async def find(connection: Connection | Pool, name: str) -> KnownCell | None:
    return CELL.read_found(await connection.fetchrow(_FIND, name))


_INSERT: Final[LiteralString] = f"""
    insert into cell (number, name, address)
    select min(number), $1::text, $2::text from generate_series(1, $3::integer - 1) as number
    where not exists (select from cell where cell.number = number.number)
    having min(number) is not null
    returning {CELL.select}
"""


async def insert(connection: Connection, name: str, address: str) -> KnownCell | None:
    """Know a cell, which gets the lowest number that none has; ``None`` if all are taken."""
    return CELL.read_found(await connection.fetchrow(_INSERT, name, address, CELLS_MAX))


_BEGIN_ELSEWHERE: Final[LiteralString] = f"""
    update cell set address = $2, identity = gen_random_uuid() where number = $1 and state = 'OPENING' returning {CELL.select}
"""


async def begin_elsewhere(connection: Connection, number: int, address: str) -> KnownCell:
    """Let a cell that is not open yet be made of another database; the former one says an identity that nobody knows now."""
    return CELL.read(await fetch_row(connection, _BEGIN_ELSEWHERE, number, address))


_OPEN: Final[LiteralString] = f"""
    update cell set state = 'OPEN' where number = $1 and identity = $2 and state = 'OPENING' returning {CELL.select}
"""


async def open_known(connection: Connection, cell: KnownCell) -> KnownCell | None:
    """Let a cell be used; ``None`` if it has begun elsewhere since, or is open."""
    return CELL.read_found(await connection.fetchrow(_OPEN, cell.number, cell.identity))


_BEGIN_MOVE: Final[LiteralString] = f"""
    update cell set state = 'MOVING', other_address = $2,
        -- No two that are begun after it are called alike; and what is closed by two that end is named by the second.
        moving_since = greatest(
            clock_timestamp(), $3::timestamptz + interval '1 second' + random() * interval '1 second'
        )
    where number = $1 and state = 'OPEN' returning {CELL.select}
"""


async def begin_move(
    connection: Connection, cell: KnownCell, other_address: str, last_move: str | None = None
) -> KnownCell | None:
    """Note where a cell is being moved to; ``None`` if it is not open, or is being moved.

    Args:
        last_move: The move that has brought the cell where it is, by the name of its copy: this one is younger, whatever the
            home cell's clock says by now.
    """
    after = None if last_move is None else began_at(last_move)
    return CELL.read_found(await connection.fetchrow(_BEGIN_MOVE, cell.number, other_address, after))


async def wait_at_most(connection: Connection, seconds: float) -> None:
    """Let each statement of this transaction wait for no lock longer than that."""
    await connection.execute("select set_config('lock_timeout', $1, true)", f"{round(seconds * 1000)}ms")


_END_MOVE: Final[LiteralString] = f"""
    update cell set state = 'OPEN', address = $2, other_address = null, moving_since = null
    where number = $1 and state = 'MOVING' and moving_since = $3 returning {CELL.select}
"""


async def end_move(connection: Connection, cell: KnownCell, address: str) -> KnownCell | None:
    """Let a cell be open at one of its two addresses; ``None`` if that move was ended by somebody else."""
    return CELL.read_found(await connection.fetchrow(_END_MOVE, cell.number, address, cell.moving_since))


_SET_ADDRESS: Final[LiteralString] = f"""
    update cell set address = $2, state = 'OPEN', other_address = null, moving_since = null
    where number = $1 and state = $3 and address = $4 and moving_since is not distinct from $5 returning {CELL.select}
"""


async def set_address(connection: Connection, cell: KnownCell, address: str) -> KnownCell | None:
    """Let a cell be open at another address; ``None`` if somebody else has changed it."""
    found = await connection.fetchrow(_SET_ADDRESS, cell.number, address, cell.state, cell.address, cell.moving_since)
    return CELL.read_found(found)


_OCTETS: Final[LiteralString] = "pg_database_size(current_database()) as octets"
# Tables whose mode nobody has said yet have no row.
_READ_FIGURES: Final[LiteralString] = f"select {_OCTETS}, (select drained_at from installation) as drained_at"
_DRAIN: Final[LiteralString] = f"update installation set drained_at = $1 returning {_OCTETS}, drained_at"


async def read_cell_figures(connection: Connection | Pool) -> CellFigures:
    """Of the cell that these tables are."""
    return CellFigures(**await fetch_row(connection, _READ_FIGURES))


async def is_drained(connection: Connection) -> bool:
    """Whether no holder is opened in this cell any more; in a transaction, whoever drains it waits until that has ended."""
    return bool(await connection.fetchval("select drained_at is not null from installation for share"))


async def drain(connection: Connection, at: datetime | None) -> CellFigures:
    """Let no holder be opened in this cell since then; with ``None`` they are."""
    return CellFigures(**await fetch_row(connection, _DRAIN, at))


_TRY_LOCK: Final[LiteralString] = "select pg_try_advisory_lock($1)"
_UNLOCK: Final[LiteralString] = "select pg_advisory_unlock($1)"


@asynccontextmanager
async def adding_cells(connection: Connection) -> AsyncGenerator[bool]:
    """Lock out all others who add or move cells, for as long as this session lasts; yields ``False`` if somebody else does."""
    async with _locking(connection, _LOCK_KEY) as is_alone:
        yield is_alone


@asynccontextmanager
async def naming_accounts(connection: Connection) -> AsyncGenerator[bool]:
    """The same for all others who add accounts at institutions in any cell, or change by what they are known there.

    Args:
        connection: To the home cell.
    """
    async with _locking(connection, _ACCOUNTS_LOCK_KEY) as is_alone:
        yield is_alone


@asynccontextmanager
async def _locking(connection: Connection, key: int) -> AsyncGenerator[bool]:
    is_alone: bool = await connection.fetchval(_TRY_LOCK, key)
    try:
        yield is_alone
    finally:
        # The lock ends with its session too.
        if is_alone:
            with suppress(*DATABASE_AWAY):
                await connection.execute(_UNLOCK, key)


class Claim(Struct, frozen=True, kw_only=True):
    """Which cell the tables of a database say they are."""

    number: int
    identity: UUID | None
    """``None`` in a home cell."""

    def is_of(self, cell: KnownCell) -> bool:
        return (self.number, self.identity) == (cell.number, cell.identity)


# By the names of columns that the tables of an older version lack.
_FIND_CLAIM: Final[LiteralString] = """
    select coalesce((row ->> 'cell')::integer, 0) as number, (row ->> 'cell_identity')::uuid as identity
    from (select to_jsonb(installation) as row from installation) as found
"""


async def find_claim(connection: Connection) -> Claim | None:
    """Which cell any database is; ``None`` where nobody has said the mode of its tables yet, or there are none."""
    if not await connection.fetchval("select to_regclass('installation') is not null"):
        return None
    row = await connection.fetchrow(_FIND_CLAIM)
    return None if row is None else Claim(**row)


# Its names have tags from the beginning: there is no holder yet, whose names might have none.
_TAKE_MODE: Final[LiteralString] = """
    insert into installation (mode, tagged_since) values ($1, '-infinity') on conflict do nothing
"""
_IDENTIFY: Final[LiteralString] = "update installation set cell_identity = $1"


async def become(connection: Connection, mode: str, cell: KnownCell) -> bool:
    """Let these tables, which nobody has used, say their mode and which cell they are; ``False`` if they say something already.

    Args:
        connection: As their owner, in a transaction: they say all of it or nothing.
    """
    if await connection.execute(_TAKE_MODE, mode) == "INSERT 0 0":
        return False
    await connection.execute("select become_cell($1)", cell.number)
    await connection.execute(_IDENTIFY, cell.identity)
    return True


_FIND_OTHER_RELATION: Final[LiteralString] = """
    select relnamespace::regnamespace::text || '.' || quote_ident(relname) from pg_class
    where relkind in ('r', 'p', 'v', 'm', 'f', 'S') and relpersistence <> 't'
        and relnamespace::regnamespace::text <> all($1::text[] || array['pg_catalog', 'information_schema', 'pg_toast'])
        -- Extensions that a server's owner puts into every database keep nothing that anybody has written.
        and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'e')
    order by 1 limit 1
"""


async def find_other_relation(connection: Connection, schemas: Sequence[str]) -> str | None:
    """A table, view or sequence of the database outside of these schemas, if there is one."""
    return await connection.fetchval(_FIND_OTHER_RELATION, list(schemas))
