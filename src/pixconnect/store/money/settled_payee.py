"""The table of whom transfers over accounts at institutions have reached, where that was told with their end."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

import msgspec

from pixconnect.domain.money.holder import Party
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.money.transfer import encode_party

_decode_party = msgspec.json.Decoder(Party).decode

_INSERT: Final[LiteralString] = """
    insert into settled_payee (transfer_id, holder_id, payee, told_at) values ($1, $2, $3, $4)
"""


async def insert(connection: Connection, transfer_id: int, holder_id: int, payee: Party, told_at: datetime) -> None:
    """In the transaction in which its transfer settles."""
    await connection.execute(_INSERT, transfer_id, holder_id, encode_party(payee), told_at)


async def find(pool: Connection | Pool, transfer_id: int, holder_id: int) -> Party | None:
    text = await pool.fetchval(
        "select payee::text from settled_payee where transfer_id = $1 and holder_id = $2", transfer_id, holder_id
    )
    return None if text is None else _decode_party(text)
