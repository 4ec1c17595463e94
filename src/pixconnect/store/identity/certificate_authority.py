"""The authority that certifies signing keys."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.foundation.pool import Connection
from pixconnect.store.frame.table import Table


class Authority(Struct, frozen=True, kw_only=True):
    id: int | None = None
    """Its number; ``None`` before it is stored."""
    private_sealed: bytes
    """PKCS #8, sealed about ``certificate_authority``."""
    certificate: bytes
    expires_at: datetime
    created_at: datetime


_AUTHORITY: Final = Table(
    "certificate_authority",
    Authority,
    """
    id bigint, private_sealed bytea, certificate bytea, expires_at timestamptz, created_at timestamptz
    """,
    key=("id",),
)


async def list_all(connection: Connection) -> list[Authority]:
    """All authorities, the one that signs certificates now first."""
    return await _AUTHORITY.find_all(connection, "order by created_at desc, id desc")


async def reseal(connection: Connection, authority: Authority, private_sealed: bytes) -> None:
    await connection.execute(
        "update certificate_authority set private_sealed = $2 where id = $1", authority.id, private_sealed
    )


_NEW = _AUTHORITY.without("id")


async def insert(connection: Connection, authority: Authority) -> None:
    statement: LiteralString = f"insert into certificate_authority ({_NEW.names}) values ({_NEW.parameters})"
    await connection.execute(statement, *_NEW.values(authority))
