"""The table of initiated transfers, whose rows are only added."""

from __future__ import annotations

from typing import Final

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


async def insert(connection: Connection, initiated: InitiatedTransfer) -> None:
    await _INITIATED_TRANSFER.insert(connection, initiated)


async def find(pool: Pool, holder_id: int, end_to_end_id: str) -> InitiatedTransfer | None:
    return await _INITIATED_TRANSFER.find(pool, "where end_to_end_id = $1 and holder_id = $2", end_to_end_id, holder_id)
