"""The table of initiated transfers, whose rows are only added."""

from __future__ import annotations

from typing import Final, LiteralString

import msgspec

from pixconnect.domain.money.holder import Party
from pixconnect.domain.simulation.initiated_transfer import InitiatedTransfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table

_encode_party = msgspec.json.Encoder().encode
_decode_party = msgspec.json.Decoder(Party).decode

_INITIATED_TRANSFER: Final = Table(
    "initiated_transfer",
    InitiatedTransfer,
    "end_to_end_id text, holder_id bigint, key text, key_type text, counterparty jsonb, created_at timestamptz",
    key=("end_to_end_id",),
    read={"counterparty": (_decode_party, "counterparty")},
    write={"counterparty": lambda initiated: _encode_party(initiated.counterparty).decode()},
)

_INSERT: Final[LiteralString] = f"""
    insert into initiated_transfer ({_INITIATED_TRANSFER.names}) values ({_INITIATED_TRANSFER.parameters})
"""


async def insert(connection: Connection, initiated: InitiatedTransfer) -> None:
    await connection.execute(_INSERT, *_INITIATED_TRANSFER.values(initiated))


_FIND: Final[LiteralString] = f"""
    select {_INITIATED_TRANSFER.select} from initiated_transfer where end_to_end_id = $1 and holder_id = $2
"""


async def find(pool: Pool, holder_id: int, end_to_end_id: str) -> InitiatedTransfer | None:
    return _INITIATED_TRANSFER.read_found(await pool.fetchrow(_FIND, end_to_end_id, holder_id))
