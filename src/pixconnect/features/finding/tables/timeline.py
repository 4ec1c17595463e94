"""The related records of one charge, transfer or refund, found by existing indexes.

No index has the events of a resource: they are searched at the instants at which it changed. No index has the deliveries of an
event: the first ones have its instant, and repeated ones are searched among an endpoint's newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.features.webhooks.rules.delivery import Delivery
from pixconnect.features.webhooks.tables import delivery_history
from pixconnect.features.webhooks.tables.delivery_history import DELIVERY
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import Event, Resource
from pixconnect.kernel.rules.ledger import LedgerEntry
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables.charge import CHARGE
from pixconnect.kernel.tables.event import EVENT
from pixconnect.kernel.tables.ledger import LEDGER_ENTRY
from pixconnect.kernel.tables.lookup import OF_VIEWER, FindAll, Pairs, ReadAll, of_viewer
from pixconnect.kernel.tables.order import ORDER
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.transfer import TRANSFER
from pixconnect.platform.pool import Connection, Pool

REFUSED_LOOKED_AT_MAX: Final = 1_000
"""Payments of a holder that were refused after a charge was made, scanned for those of the charge."""
NEWEST_LOOKED_AT_MAX: Final = 1_000  # among each endpoint's newest deliveries

find_charge: Final = of_viewer(CHARGE)
find_transfer: Final = of_viewer(TRANSFER)
find_refund: Final = of_viewer(REFUND)
find_event: Final = of_viewer(EVENT)

FURTHER_LOOKED_AT_MAX: Final = 100  # payments of a code whose charge another payment had paid
# The one that holds it or paid it by their indexes; refused ones by the index of the list.
_FIND_TRANSFERS_TO: Final[LiteralString] = f"""
    select {TRANSFER.select} from transfer where charge_id = $1 and holder_id = $2 and settled_at is not null
    union all
    select {TRANSFER.select} from transfer where id = $3 and holder_id = $2 and settled_at is null
    union all
    select refused.* from (
        select {TRANSFER.select} from transfer
        where holder_id = $2 and holder_id + 0 = $2 and status = 'ERROR' and created_at >= $4
        order by created_at, id limit $5
    ) as refused where charge_id = $1
    union all
    select further.* from (
        select {TRANSFER.select} from transfer
        where holder_id + 0 = $2 and direction = 'IN' and settled_at is not null and charge_id is null and txid = any(
            select unnest(array[$6, reference, network_txid]) from (values (1)) as always
            left join charge_opening on charge_opening.charge_id = $1 and charge_opening.holder_id = $2
        )
        order by id limit $7
    ) as further
"""


async def find_transfers_to(pool: Connection | Pool, charge: Charge) -> list[Transfer]:
    """Find payments that paid a charge, hold it, were refused for it, or came later by its code and paid no charge."""
    rows = await pool.fetch(
        _FIND_TRANSFERS_TO,
        charge.id,
        charge.holder_id,
        charge.held_by,
        charge.created_at,
        REFUSED_LOOKED_AT_MAX,
        charge.txid,
        FURTHER_LOOKED_AT_MAX,
    )
    return [TRANSFER.read(row) for row in rows]


find_refunds: Final = FindAll[Refund, int, Sequence[int]](REFUND, "where holder_id = $1 and transfer_id = any($2) order by id")


find_open_orders: Final = FindAll[OpenOrder, Sequence[str]](ORDER, "where name = any($1)")
"""Those of these orders that the rail has not ended."""

_FIND_ENTRIES: Final[LiteralString] = f"""
    select {LEDGER_ENTRY.select} from unnest($1::bigint[], $2::text[]) as cause (id, kind)
    join ledger_entry on cause_id = cause.id and cause_kind = cause.kind::entry_cause and holder_id = $3
    order by ledger_entry.id
"""


async def find_ledger_entries(
    pool: Pool, holder_id: int, transfers: Sequence[Transfer], refunds: Sequence[Refund]
) -> list[LedgerEntry]:
    ids = [each.id for each in (*transfers, *refunds)]
    kinds = ["transfer"] * len(transfers) + ["refund"] * len(refunds)
    return [LEDGER_ENTRY.read(row) for row in await pool.fetch(_FIND_ENTRIES, ids, kinds, holder_id)]


find_events: Final = ReadAll[Event, int, Sequence[datetime], Sequence[Resource], Sequence[int]](
    EVENT,
    f"""
    select {EVENT.select} from unnest($2::timestamptz[]) as moved (at)
    join event on event.holder_id = $1 and event.created_at = moved.at
    where (resource, resource_id) in (select * from unnest($3::text[], $4::bigint[])) order by event.id
    """,
)
"""Find the events of a holder that happened at these instants, of these resources, each named by its kind and its id."""

_FIND_DELIVERIES: Final[LiteralString] = f"""
    select found.* from unnest($1::bigint[]) as endpoint (id)
    cross join lateral (
        select {DELIVERY.select} from delivery where endpoint_id = endpoint.id and created_at = any($3) and event_id = any($2)
        union
        select newest.* from (
            select {DELIVERY.select} from delivery where endpoint_id = endpoint.id and created_at > $4
            order by created_at desc, id desc limit $5
        ) as newest where event_id = any($2)
    ) as found order by found.id
"""


async def find_deliveries(pool: Pool, endpoint_ids: Sequence[int], events: Sequence[Event]) -> list[Delivery]:
    """The deliveries of events to endpoints, with their attempts."""
    if not events or not endpoint_ids:
        return []
    instants = [event.created_at for event in events]
    rows = await pool.fetch(
        _FIND_DELIVERIES, endpoint_ids, [event.id for event in events], instants, min(instants), NEWEST_LOOKED_AT_MAX
    )
    return await delivery_history.read_whole(pool, rows)


_FIND_DELIVERY: Final[LiteralString] = f"select {DELIVERY.select} from delivery where {OF_VIEWER}"
find_held_back: Final = Pairs[int, int, Sequence[int]]("""
    select later.id, first.id from delivery as later cross join lateral (
        select id from delivery where endpoint_id = later.endpoint_id and resource_id = later.resource_id
            and resource = later.resource and status = 'pending' and (event_id, id) < (later.event_id, later.id)
        order by event_id, id limit 1
    ) as first
    where later.id = any($1) and later.status = 'pending'
""")
"""Find, for deliveries behind an earlier event of the same resource, the one that their endpoint must get first."""


async def find_delivery(pool: Pool, delivery_id: int, holder_id: int | None) -> Delivery | None:
    """A delivery of this holder or of its family, or of any, with its attempts."""
    found = await delivery_history.read_whole(pool, await pool.fetch(_FIND_DELIVERY, delivery_id, holder_id))
    return found[0] if found else None
