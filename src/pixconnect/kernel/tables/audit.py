"""Operators' acts: an append-only table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.tables.lookup import Command
from pixconnect.platform.pool import Connection


class AuditEntry(Struct, frozen=True, kw_only=True):
    id: int
    at: datetime
    """By the database's clock."""
    operator: str
    verb: str
    subject: str
    before: str | None
    """JSON; ``None`` if nothing existed before."""
    after: str | None
    request_id: str | None
    login: str
    """The database login that wrote it, and the role that it had assumed: defaults of the table."""
    door: str


append: Final = Command[str, str, str, str | None, str | None]("""
    insert into audit (operator, verb, subject, before, after) values ($1, $2, $3, $4::text::jsonb, $5::text::jsonb)
""")
"""Append a row; ``before`` and ``after`` are JSON."""

FIELDS: Final[LiteralString] = "id, at, operator, verb, subject, before::text, after::text, request_id, login, door"
_LIST_BEFORE: Final[LiteralString] = f"""
    select {FIELDS} from audit
    where id < coalesce($1, 9223372036854775807) and ($2::text[] is null or subject = any($2))
        and ($4::text is null or operator = $4)
    order by id desc limit $3
"""


async def list_before(
    connection: Connection, before_id: int | None, subjects: Sequence[str] | None, count_max: int, by: str | None = None
) -> list[AuditEntry]:
    """List entries before a cursor, newest first; all, or those about these subjects or by an operator."""
    rows = await connection.fetch(_LIST_BEFORE, before_id, None if subjects is None else list(subjects), count_max, by)
    return [AuditEntry(**row) for row in rows]
