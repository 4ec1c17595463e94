"""The table of keys that sign callbacks as institutions sign them that publish theirs."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain.webhooks.callback_key import CallbackKey
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table

CALLBACK_KEY: Final = Table(
    "callback_key",
    CallbackKey,
    "key_identifier text, profile text, public_pem text, private_sealed bytea, created_at timestamptz",
    key=("key_identifier",),
)

_INSERT: Final[LiteralString] = f"insert into callback_key ({CALLBACK_KEY.names}) values ({CALLBACK_KEY.parameters})"


async def insert(connection: Connection, key: CallbackKey) -> None:
    await connection.execute(_INSERT, *CALLBACK_KEY.values(key))


_LIST: Final[LiteralString] = f"""
    select {CALLBACK_KEY.select} from callback_key where profile = $1 order by created_at desc, key_identifier
"""


async def list_of_profile(pool: Pool, profile: str) -> list[CallbackKey]:
    """Those of an institution, the newest first."""
    return [CALLBACK_KEY.read(row) for row in await pool.fetch(_LIST, profile)]
