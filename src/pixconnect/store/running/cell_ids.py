"""The ids that a cell has given out, at the two ends of a move: the log that is copied says nothing of its sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from pixconnect.foundation.pool import Connection

_LIST_SEQUENCES: Final[LiteralString] = """
    select format('%I.%I', schemaname, sequencename) as name from pg_sequences where schemaname = any($1) order by 1
"""


async def copy_sequences(source: Connection, target: Connection, schemas: Sequence[str]) -> None:
    """Give the target's sequences the values of the source's, of which the log says nothing."""
    names = [row["name"] for row in await source.fetch(_LIST_SEQUENCES, schemas)]
    read = " union all ".join(f"select '{name}' as name, last_value, is_called from {name}" for name in names)
    found = [(row["name"], row["last_value"], row["is_called"]) for row in await source.fetch(read)]
    await target.fetch(
        "select setval(name::regclass, last_value, is_called) "
        "from unnest($1::text[], $2::bigint[], $3::boolean[]) as copied (name, last_value, is_called)",
        *map(list, zip(*found, strict=True)),
    )


_READ_GIVEN: Final[LiteralString] = """
    select format('%I.%I', schemaname, sequencename) as name, coalesce(last_value, 0) as given
    from pg_sequences where schemaname = any($1)
"""


async def read_given(connection: Connection, schemas: Sequence[str]) -> dict[str, int]:
    """The last id that each sequence has given out: a copy that nobody was to take over gives out none."""
    return {row["name"]: row["given"] for row in await connection.fetch(_READ_GIVEN, schemas)}


# Those of `COUNTED` are moved ahead when a process meets the server, by what may have been given out since they were noted.
_LIST_IDS: Final[LiteralString] = """
    select format('%s.%I', relnamespace::regnamespace, relname) as table_name, attname::text as column_name,
        pg_get_serial_sequence(format('%s.%I', relnamespace::regnamespace, relname), attname) as sequence_name
    from pg_attribute join pg_class on pg_class.oid = attrelid
    where relnamespace::regnamespace::text = any($1) and attidentity <> '' and relkind in ('r', 'p') and not relispartition
    union all select 'holder', 'id', 'holder_id'
"""
_IDS_LEFT_OUT: Final = 1000


async def skip_ids(target: Connection, schemas: Sequence[str]) -> None:
    """Let no id be given out again that the source may have given out, where it cannot be asked any more."""
    for row in await target.fetch(_LIST_IDS, schemas):
        sequence = row["sequence_name"]
        largest = f"(select max({row['column_name']}) from {row['table_name']})"
        await target.execute(
            f"select setval('{sequence}', greatest(last_value, {largest}) + {_IDS_LEFT_OUT}) from {sequence}"
        )
