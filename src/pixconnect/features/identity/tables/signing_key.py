"""The tables of signing keys and of the authorities that certify them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.features.identity.rules import SigningKey
from pixconnect.kernel.tables.lookup import AdvisoryLocks, Command, FindAll
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool


class Keys(Struct, frozen=True, kw_only=True):
    """All signing keys, as of one revision of ``access_revision``."""

    revision: int
    keys: Sequence[SigningKey]


SIGNING_KEY: Final = Table(
    "signing_key",
    SigningKey,
    """
    kid text, public_jwk bytea, private_sealed bytea, certificates bytea[], host text, expires_at timestamptz,
    created_at timestamptz, signs_from timestamptz, revoked_at timestamptz
    """,
    key=("kid",),
    read={"certificates": (tuple, "certificates")},
)

lock: Final = AdvisoryLocks(0x7078_6103).lock

_LIST: LiteralString = f"""
select revision, {SIGNING_KEY.select}
from access_revision left join signing_key on true order by signs_from desc, created_at desc, kid
"""


async def read_all(connection: Connection | Pool) -> Keys:
    rows = await connection.fetch(_LIST)
    # The revision exists even without keys.
    keys = [SIGNING_KEY.read(row) for row in rows if row["kid"] is not None]
    return Keys(revision=rows[0]["revision"], keys=keys)


_FIND_SEALED: LiteralString = "select kid, private_sealed from signing_key where private_sealed is not null"


async def find_sealed(connection: Connection) -> Mapping[str, bytes]:
    """The stored private parts, by key; the tables may not exist yet."""
    if not await connection.fetchval("select to_regclass('signing_key') is not null"):
        return {}
    return {row["kid"]: row["private_sealed"] for row in await connection.fetch(_FIND_SEALED)}


async def list_all(connection: Connection | Pool) -> list[SigningKey]:
    return list((await read_all(connection)).keys)


insert: Final = SIGNING_KEY.insert

# A key that no longer signs is only used to verify.
forget_private: Final = Command[Sequence[str]](
    "update signing_key set private_sealed = null where kid = any($1) and private_sealed is not null"
)

revoke: Final = Command[str, datetime]("""
update signing_key set private_sealed = null, revoked_at = $2 where kid = $1 and revoked_at is null
""")
"""Revoke a key, and delete its private part."""

reseal: Final = Command[str, bytes]("update signing_key set private_sealed = $2 where kid = $1 and private_sealed is not null")

delete: Final = Command[Sequence[str]]("delete from signing_key where kid = any($1)")
"""Delete keys that no longer verify anything."""


class Authority(Struct, frozen=True, kw_only=True):
    id: int | None = None  # its number; ``None`` before it is stored
    private_sealed: bytes  # PKCS #8, bound by ``certificate_authority``
    certificate: bytes
    expires_at: datetime
    created_at: datetime


_AUTHORITY: Final = Table(
    "certificate_authority",
    Authority,
    "id bigint, private_sealed bytea, certificate bytea, expires_at timestamptz, created_at timestamptz",
    key=("id",),
)

list_authorities: Final = FindAll[Authority](_AUTHORITY, "order by created_at desc, id desc")


reseal_authority: Final = _AUTHORITY.updating(_AUTHORITY.only("id, private_sealed"))

_NEW = _AUTHORITY.without("id")


async def insert_authority(connection: Connection, authority: Authority) -> None:
    statement: LiteralString = f"insert into certificate_authority ({_NEW.names}) values ({_NEW.parameters})"
    await connection.execute(statement, *_NEW.values(authority))
