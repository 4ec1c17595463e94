"""The table of payments whose payer became known later, and what of their transfers changes by it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.money.transfer import Transfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import split_pairs
from pixconnect.store.money.transfer import encode_party

_FIND: Final[LiteralString] = """
    select transfer_id, holder_id from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    join payer_completion using (transfer_id, holder_id)
"""


async def find_completed(connection: Connection | Pool, wanted: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those of these transfers, by id and holder, whose payer became known before."""
    rows = await connection.fetch(_FIND, *split_pairs(wanted))
    return {(row["transfer_id"], row["holder_id"]) for row in rows}


# Two statements: the trigger `check_payer` finds the row that the first has written.
_NOTE: Final[LiteralString] = """
    insert into payer_completion (transfer_id, holder_id, before, completed_at)
    select id, holder_id, counterparty, $3 from transfer where id = $1 and holder_id = $2
"""
_COMPLETE: Final[LiteralString] = "update transfer set counterparty = $3 where id = $1 and holder_id = $2"


async def complete(connection: Connection, transfer: Transfer, completed_at: datetime) -> None:
    """Write the payer of a transfer that is locked, and what was known of it before."""
    await connection.execute(_NOTE, transfer.id, transfer.holder_id, completed_at)
    await connection.execute(_COMPLETE, transfer.id, transfer.holder_id, encode_party(transfer.counterparty))
