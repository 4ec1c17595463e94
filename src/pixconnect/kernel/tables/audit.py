"""Operators' acts: an append-only table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.tables.lookup import Command
from pixconnect.platform.pool import Connection, Pool


class AuditEntry(Struct, frozen=True, kw_only=True):
    id: int
    at: datetime  # by the database's clock
    operator: str
    verb: str
    subject: str
    before: str | None  # JSON; ``None`` if nothing existed before
    after: str | None
    request_id: str | None
    login: str  # the database login that wrote it, and the role that it had assumed: defaults of the table
    door: str


append: Final = Command[str, str, str, str | None, str | None]("""
    insert into audit (operator, verb, subject, before, after) values ($1, $2, $3, $4::text::jsonb, $5::text::jsonb)
""")
"""Append a row; ``before`` and ``after`` are JSON."""


def _list_before(about: LiteralString = "") -> LiteralString:
    return f"""
        select id, at, operator, verb, subject, before::text, after::text, request_id, login, door from audit
        where id < coalesce($1, 9223372036854775807) and ($2::text is null or operator = $2){about}
        order by id desc limit $3
    """


# Two statements, so that the second one can read the index of subjects.
_LIST_ALL: Final = _list_before()
_LIST_ABOUT: Final = _list_before(" and subject = any($4)")


async def list_before(
    connection: Connection | Pool, before_id: int | None, subjects: Sequence[str] | None, count_max: int, by: str | None = None
) -> list[AuditEntry]:
    """List entries before a cursor, newest first; all, or those about these subjects or by an operator."""
    asked = before_id, by, count_max
    if subjects is None:
        rows = await connection.fetch(_LIST_ALL, *asked)
    else:
        rows = await connection.fetch(_LIST_ABOUT, *asked, list(subjects))
    return [AuditEntry(**row) for row in rows]
