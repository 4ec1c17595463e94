"""The table of transfers that began to wait for a person at an institution."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.domain.money.rail import WaitsFor
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table


class WaitingOrder(Struct, frozen=True, kw_only=True):
    order_name: str
    transfer_id: int
    holder_id: int
    institution_id: int
    waits_for: WaitsFor
    since: datetime
    """In service time."""


WAITING: Final = Table(
    "waiting_order",
    WaitingOrder,
    """
    order_name text, transfer_id bigint, holder_id bigint, institution_id smallint, waits_for text, since timestamptz
    """,
    key=("order_name",),
)

_INSERT: Final[LiteralString] = f"insert into waiting_order ({WAITING.names}) values ({WAITING.parameters})"
_FIND: Final[LiteralString] = f"select {WAITING.select} from waiting_order where order_name = any($1)"


async def insert(connection: Connection, waiting: WaitingOrder) -> None:
    await connection.execute(_INSERT, *WAITING.values(waiting))


async def find(connection: Connection | Pool, order_names: Sequence[str]) -> dict[str, WaitingOrder]:
    """Those of these orders that have begun to wait, whether they still do or not."""
    return {row["order_name"]: WAITING.read(row) for row in await connection.fetch(_FIND, order_names)}


_LIST_OPEN: Final[LiteralString] = """
    select institution_account.name as institution, waiting_order.since from waiting_order
    join open_order on open_order.name = order_name
    join institution_account on institution_account.id = waiting_order.institution_id
    order by waiting_order.since limit $1
"""


async def list_open_since(pool: Pool, count_max: int) -> list[tuple[str, datetime]]:
    """The account and the begin of each that still waits, the longest waiting first."""
    return [(row["institution"], row["since"]) for row in await pool.fetch(_LIST_OPEN, count_max)]
