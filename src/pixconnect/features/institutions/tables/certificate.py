"""The table of the expiry of accounts' certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from pixconnect.features.institutions.rules.account import AccountCertificate
from pixconnect.platform.pool import Connection, Pool

# Written only on a change: a worker opens an account at each change of it.
_NOTE: Final[LiteralString] = """
    insert into institution_certificate as kept (institution_id, part, ends_at)
    select $1, part, ends_at from unnest($2::text[], $3::timestamptz[]) as used (part, ends_at)
    on conflict (institution_id, part) do update set ends_at = excluded.ends_at where kept.ends_at <> excluded.ends_at
"""
_FORGET_OTHERS: Final[LiteralString] = """
    delete from institution_certificate where institution_id = $1 and (part = 'sending') = $3 and part <> all($2)
"""


async def note(
    connection: Connection | Pool, institution_id: int, used: Sequence[AccountCertificate], *, of_sending: bool = False
) -> None:
    """Record the certificates of an account's receiving credential and its institution, or of its sending one."""
    parts = [one.part for one in used]
    await connection.execute(_FORGET_OTHERS, institution_id, parts, of_sending)
    await connection.execute(_NOTE, institution_id, parts, [one.ends_at for one in used])


_LIST: Final[LiteralString] = """
    select name, part, ends_at from institution_certificate join institution_account on id = institution_id
    where removed_at is null and state <> 'closed' order by name, part
"""


async def list_all(connection: Connection | Pool) -> list[tuple[str, AccountCertificate]]:
    """List certificates of all accounts in use, with each one's name."""
    return [
        (row["name"], AccountCertificate(part=row["part"], ends_at=row["ends_at"]))
        for row in await connection.fetch(_LIST)
    ]
