"""Which Pix keys, account numbers and accounts at institutions are another cell's, as the home cell knows.

Its tables ``key_cell``, ``account_cell`` and ``institution_cell`` say it.

What has no row is the home cell's own or nobody's, so where there is one cell nothing is written and nothing is asked. A row is
written before the cell has the name and goes after the cell has lost it: it says where to ask, and the cell decides. The
triggers ``key_is_of_one_cell`` and the like keep the home cell and the others from having the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, LiteralString

import asyncpg
from msgspec import Struct, field

from pixconnect.foundation.pool import Connection, Pool

NameKind = Literal["key", "account", "institution"]
IS_OF_ONE_CELL: Final = "a_name_is_of_one_cell"


class _Names(Struct, frozen=True):
    """The statements about one kind of names."""

    claim: LiteralString
    find: LiteralString
    page: LiteralString
    forget: LiteralString
    page_of_cell: LiteralString
    keep_wanted: LiteralString


def _write(
    table: LiteralString, name: LiteralString, page_of_cell: LiteralString, keep_wanted: LiteralString
) -> _Names:
    return _Names(
        claim=f"""
            insert into {table} ({name}, cell) values ($1, $2)
            on conflict ({name}) do update set claimed_at = clock_timestamp() where {table}.cell = excluded.cell
            returning cell
        """,
        find=f"select {name} as name, cell from {table} where {name} = any($1)",
        page=f"""
            select {name} as name, claimed_at from {table} where cell = $1 and {name} > $2 order by {name} limit $3
        """,
        # Whoever claims it anew meanwhile changes the instant.
        forget=f"""
            delete from {table} using unnest($2::text[], $3::timestamptz[]) as lost (name, claimed_at)
            where {table}.{name} = lost.name and cell = $1 and {table}.claimed_at = lost.claimed_at
                and {table}.claimed_at < clock_timestamp() - $4::interval
        """,
        page_of_cell=page_of_cell,
        keep_wanted=keep_wanted,
    )


_KEPT: Final[Mapping[NameKind, _Names]] = {
    "key": _write(
        "key_cell",
        "key",
        "select key as name, holder_id from pix_key where key > $1 order by key limit $2",
        # A key that was removed is for its last holder alone, for a minute and while payments to it are under way.
        """
        select name from unnest($1::text[]) as name
        where exists (select from pix_key where key = name) or exists (
            select from removed_pix_key where key = name and (
                removed_at > clock_timestamp() - $2::interval or exists (
                    select from transfer where direction = 'IN' and status = 'PROCESSING' and own_key = name
                        and transfer.holder_id + 0 = removed_pix_key.holder_id
                )
            )
        )
        """,
    ),
    "account": _write(
        "account_cell",
        "account_number",
        "select account_number as name, id as holder_id from holder where account_number > $1 order by account_number limit $2",
        """
        select name from unnest($1::text[]) as name
        where $2::interval is not null and exists (select from holder where account_number = name)
        """,
    ),
    "institution": _write(
        "institution_cell",
        "name",
        """
        select name, house_id as holder_id from institution_account
        where removed_at is null and name > $1 order by name limit $2
        """,
        """
        select name from unnest($1::text[]) as name
        where $2::interval is not null and exists (
            select from institution_account as account where account.name = name.name and removed_at is null
        )
        """,
    ),
}


async def claim(connection: Connection, kind: NameKind, name: str, number: int) -> bool:
    """Say that a name is to be a cell's, anew if it is; ``False`` if the home cell or another one has it.

    Args:
        connection: To the home cell, in a transaction of its own, which is over where this answers ``False``.
    """
    try:
        return await connection.fetchval(_KEPT[kind].claim, name, number) is not None
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name != IS_OF_ONE_CELL:
            raise
        return False


async def find_cells(connection: Connection | Pool, kind: NameKind, names: Sequence[str]) -> dict[str, int]:
    """The cells that these names are said to be of; one of the home cell or of nobody is left out."""
    return {row["name"]: row["cell"] for row in await connection.fetch(_KEPT[kind].find, names)}


_FIND_TRACES: Final[LiteralString] = """
    select key, cell, false as is_former from key_cell where key = any($1)
    union all
    select key, cell, true from former_key_cell where key = any($1)
    order by key, cell
"""
_FORGET_FORMER: Final[LiteralString] = """
    with forgotten as (
        delete from former_key_cell where (key, cell) in (
            select key, cell from former_key_cell where left_at < clock_timestamp() - $1::interval order by left_at limit $2
        ) returning 1
    )
    select count(*) from forgotten
"""


class KeyTrace(Struct):
    """Where a key leads, and has led."""

    cell: int | None = None
    """The other cell that is said to have it; ``None`` where none is."""
    former: list[int] = field(default_factory=list[int])
    """Other cells that had it, and are to be asked what came to it then."""


async def find_traces(pool: Pool, keys: Collection[str]) -> dict[str, KeyTrace]:
    """Those of keys that lead or have led to another cell than the home cell."""
    traces: dict[str, KeyTrace] = {}
    for row in await pool.fetch(_FIND_TRACES, list(keys)):
        trace = traces.setdefault(row["key"], KeyTrace())
        if row["is_former"]:
            trace.former.append(row["cell"])
        else:
            trace.cell = row["cell"]
    return traces


async def forget_former(pool: Pool, kept_for: timedelta, count_max: int) -> int:
    """Forget the oldest of these, at most so many; how many there were."""
    return await pool.fetchval(_FORGET_FORMER, kept_for, count_max)


class ClaimedName(Struct, frozen=True):
    name: str
    claimed_at: datetime


async def page_claimed(
    connection: Connection | Pool, kind: NameKind, number: int, after: str, count_max: int
) -> list[ClaimedName]:
    """Names that are said to be a cell's, in their order; ``after`` is the last one of the page before."""
    rows = await connection.fetch(_KEPT[kind].page, number, after, count_max)
    return [ClaimedName(row["name"], row["claimed_at"]) for row in rows]


async def forget(
    connection: Connection | Pool, kind: NameKind, number: int, lost: Sequence[ClaimedName], age_min: timedelta
) -> int:
    """Forget names that the cell does not have, but for those that were claimed anew, or less than so long ago."""
    given = [each.name for each in lost], [each.claimed_at for each in lost]
    tag = await connection.execute(_KEPT[kind].forget, number, *given, age_min)
    return int(tag.rpartition(" ")[2])


async def page_names(pool: Pool, kind: NameKind, after: str, count_max: int) -> dict[str, int]:
    """Names that holders of this very cell have, in their order, with whose they are."""
    return {row["name"]: row["holder_id"] for row in await pool.fetch(_KEPT[kind].page_of_cell, after, count_max)}


async def keep_wanted(pool: Pool, kind: NameKind, names: Sequence[str], wait: timedelta) -> set[str]:
    """Those of the names that holders of this very cell have, or had until so long ago."""
    return {row["name"] for row in await pool.fetch(_KEPT[kind].keep_wanted, names, wait)}
