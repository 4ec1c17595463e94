"""Operators' accounts, console sessions and single-use links; tokens are stored only as hashes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.access import WRONG_CODES_MAX, Role, VisitorKind
from pixconnect.kernel.tables.lookup import Command, FindAll, FindOne, ReadAll, ReadOne, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection


class ConsoleOperator(Struct, frozen=True, kw_only=True):
    name: str
    role: Role
    password_hash: str
    totp_sealed: bytes
    totp_step: int  # the step of the last used code
    recovery_hashes: tuple[bytes, ...]  # hashes of the unused codes
    wrong_codes_at: tuple[datetime, ...] = ()  # the instants of wrong codes with the right password, within a day
    created_at: datetime
    reset_at: datetime | None

    @property
    def is_locked(self) -> bool:
        return len(self.wrong_codes_at) >= WRONG_CODES_MAX


class ConsoleSession(Struct, frozen=True, kw_only=True):
    id: int
    kind: VisitorKind
    operator_name: str | None
    client_id: str | None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime


class FoundSession(Struct, frozen=True, kw_only=True):
    """A valid session, with the present rights of its operator or client."""

    session: ConsoleSession
    role: Role | None
    holder_id: int | None
    scopes: Sequence[str]


_OPERATOR: Final = Table(
    "console_operator",
    ConsoleOperator,
    """
    name text, role text, password_hash text, totp_sealed bytea, totp_step bigint, recovery_hashes bytea[],
    wrong_codes_at timestamptz[], created_at timestamptz, reset_at timestamptz
    """,
    key=("name",),
    read={name: (tuple, name) for name in ("recovery_hashes", "wrong_codes_at")},
)
_SESSION: Final = Table(
    "console_session",
    ConsoleSession,
    """
    id bigint, kind text, operator_name text, client_id text, created_at timestamptz, seen_at timestamptz,
    expires_at timestamptz
    """,
)

insert_operator: Final = _OPERATOR.insert_new
"""Insert an account; ``False`` if the name is taken."""

lock_operator: Final = FindOne[ConsoleOperator, str](_OPERATOR, "where name = $1 for update")

update_operator: Final = _OPERATOR.updating(_OPERATOR.without("role", "created_at"))

note_code: Final = _OPERATOR.updating(_OPERATOR.only("name, totp_step, recovery_hashes, wrong_codes_at"))
"""Store used codes and the instants of wrong ones: all that the console may change of an operator."""

delete_operator: Final = Command[str]("delete from console_operator where name = $1")
"""Remove an account; its sessions go with it."""
list_operators: Final = FindAll[ConsoleOperator](_OPERATOR, "order by name")

lock_operators: Final = FindAll[ConsoleOperator](_OPERATOR, "order by name for update")

_NEW_SESSION: Final = _SESSION.without("id")
_INSERT_SESSION: Final[LiteralString] = f"""
    insert into console_session ({_NEW_SESSION.names}, token_hash) values ({_NEW_SESSION.parameters}, $7)
"""


async def insert_session(connection: Connection, session: ConsoleSession, token_hash: bytes) -> None:
    """Add a session; its id is generated here."""
    await connection.execute(_INSERT_SESSION, *_NEW_SESSION.values(session), token_hash)


# A client's session is valid as long as a token issued at its beginning.
_FROM_GOOD: Final[LiteralString] = """
    from console_session
    left join console_operator on console_operator.name = operator_name
    left join client on client.client_id = console_session.client_id
    left join holder on holder.id = client.holder_id
    where expires_at > $1 and console_session.login = session_user
        and (kind <> 'operator' or console_operator.name is not null) and (
        kind <> 'holder' or (
            client.disabled_at is null and holder.disabled_at is null
            and console_session.created_at >= coalesce(client.tokens_from, '-infinity') and client.client_id is not null
        )
    )
"""
_FOUND: Final[LiteralString] = f"select {_SESSION.select}, role, holder.id as holder_id, client.scopes {_FROM_GOOD}"


async def find_session(connection: Connection, token_hash: bytes, now: datetime) -> FoundSession | None:
    """Find the session of a token; ``None`` if it is over, or its operator or client is no longer valid."""
    row = await connection.fetchrow(f"{_FOUND} and token_hash = $2", now, token_hash)
    if row is None:
        return None
    return FoundSession(session=_SESSION.read(row), role=row["role"], holder_id=row["holder_id"], scopes=row["scopes"] or ())


list_sessions: Final = ReadAll[ConsoleSession, datetime, str | None, int](
    _SESSION,
    f"""
    select {_SESSION.select} {_FROM_GOOD} and ($2::text is null or console_session.client_id = $2)
    order by seen_at desc limit $3
""",
)
"""List valid sessions, last used first: those of a client, or all."""

slide_session: Final = Command[int, datetime, datetime](
    "update console_session set seen_at = $2, expires_at = $3 where id = $1"
)

delete_session: Final = ReadOne[ConsoleSession, int, str | None](
    _SESSION, f"delete from console_session where id = $1 and ($2::text is null or client_id = $2) returning {_SESSION.select}"
)
"""Delete a session of a client, or any, and return it."""

delete_sessions_of: Final = Command[str]("delete from console_session where operator_name = $1")

forget_old: Final = Command[datetime]("""
    with links as (delete from console_link where expires_at < $1)
    delete from console_session where id in (
        select id from console_session where expires_at < $1 order by expires_at limit 100 for update skip locked
    )
""")
"""Delete some expired rows: each sign-in does so, and the tables do not grow."""

insert_link: Final = Command[bytes, datetime]("insert into console_link (token_hash, expires_at) values ($1, $2)")

use_link: Final = Value[datetime | None, bytes, datetime]("""
    update console_link set used_at = $2 where token_hash = $1 and used_at is null and expires_at > $2 returning used_at
""")
"""Use up a link; ``None`` if it was used already, or its time is over."""
