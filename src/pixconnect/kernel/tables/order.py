"""The table of open orders: narrow, so that moving one on never rewrites its transfer or refund."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.order import OpenOrder, name_of
from pixconnect.kernel.rules.rail import WaitsFor
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Command, FindAll, FindBy, Tuples, Value
from pixconnect.kernel.tables.table import Part, Table, insert_of, split_pairs
from pixconnect.kernel.tables.transfer import TRANSFER
from pixconnect.platform.pool import Connection, Pool

ORDER: Final = Table(
    "open_order",
    OpenOrder,
    """
    name text, holder_id bigint, resource_id bigint, slot smallint, ordered_at timestamptz, due_at timestamptz,
    give_up_at timestamptz, handed_at timestamptz, asked_count integer, network_id text, institution_id smallint,
    br_code text, approval text
    """,
    key=("name",),
)

# A new order has not been handed over, so the columns' defaults need not be sent.
_NEW_AWAITED: Final = ORDER.without("handed_at, asked_count, network_id")
_NEW_THERE: Final = _NEW_AWAITED.without("approval")
_NEW: Final = _NEW_THERE.without("institution_id, br_code")
_ALIKE: Final = "ordered_at, due_at, give_up_at"
INSERT: Final = insert_of(ORDER, _NEW, name="open_order_row", once=[f"{_ALIKE}, holder_id", _ALIKE])
INSERT_THERE: Final = insert_of(ORDER, _NEW_THERE, name="open_order_there_row")
INSERT_AWAITED: Final = insert_of(ORDER, _NEW_AWAITED, name="awaited_order_row")  # few wait for an operator, on any rail

DELETE: Final = Part[OpenOrder](
    name="open_order_end",
    sql="delete from open_order where name = any({}::text[]) returning 1",
    returns="each row",
    arguments=lambda orders: [[order.name for order in orders]],
)


def _find_insert(order: OpenOrder) -> Part[OpenOrder]:
    if order.approval is not None:
        return INSERT_AWAITED
    return INSERT if order.institution_id is None else INSERT_THERE


ORDERS: Final = Fact(
    rank=70,
    inserts=(INSERT, INSERT_THERE, INSERT_AWAITED),
    find_insert=_find_insert,
    delete=DELETE,
    key=attrgetter("name"),
    sort_key=attrgetter("name"),
)

IS_ANY_DUE: Final[LiteralString] = """
    exists (
        select from open_order
        where due_at <= $2::timestamptz and slot + 0 = any($1::smallint[]) and institution_id is null
    )
"""
"""For slots ``$1`` at ``$2``."""

# The slot is filtered row by row: PostgreSQL 16 would seek each slot in the index, lose the order, and sort all due rows.
# Not from the beginning of time: orders that ended or moved before ``$2`` have left dead entries in the index.
find_due: Final = FindAll[OpenOrder, Sequence[int], datetime, datetime, int](
    ORDER, "where due_at between $2 and $3 and slot + 0 = any($1) and institution_id is null order by due_at limit $4"
)
"""Find due orders of the installation's own rail, longest due first."""


async def find_due_of_account(
    pool: Pool,
    institution_id: int,
    until: datetime,
    count_max: int,
    *,
    unsent_until: datetime | None = None,
    handed_alone: bool = False,
) -> list[OpenOrder]:
    """Find due orders of an account, longest due first.

    Args:
        unsent_until: Only orders that were never handed over, and had to be by then.
        handed_alone: Only orders that were handed over.
    """
    where: LiteralString = """
        where institution_id = $1 and due_at <= $2 and ($3::timestamptz is null or handed_at is null and give_up_at <= $3)
            and (handed_at is not null or not $5)
        order by due_at limit $4
    """
    return await ORDER.find_all(pool, where, institution_id, until, unsent_until, count_max, handed_alone)


count_unsent_of_account: Final = Value[int, int, int]("""
    select count(*) from (
        select from open_order
        where institution_id = $1 and handed_at is null and left(name, 1) = 'E' and approval is distinct from 'awaited' limit $2
    ) as unsent
""")
"""Count an account's transfers that wait for handover, up to ``count_max``."""

list_unsent_refunds: Final = FindAll[OpenOrder, int, datetime, int](
    ORDER,
    "where institution_id = $1 and handed_at is null and left(name, 1) = 'D' and ordered_at <= $2 order by ordered_at limit $3",
)
"""List an account's refunds that have waited for handover since an instant, oldest first."""

# Sorted by an expression without an index: PostgreSQL would read a whole index that is in the order of names.
lock: Final = FindBy[str, OpenOrder, Sequence[str]](ORDER, "name", "where name = any($1) order by name || '' for update")
"""Lock open orders by name until the transaction ends; taken after the balances of their holders."""

# Among the due ones first: a rail may be silent about millions, which we query more and more seldom. Not the very oldest one,
# about which it may be silent too.
find_oldest: Final = Value[datetime | None]("""
    select percentile_disc(0.1) within group (order by ordered_at)
    from (
        select ordered_at from open_order where approval is distinct from 'awaited' order by due_at limit 4096
    ) as due_first
""")
"""Find when the oldest tenth of the next due orders was made."""

# From this mark on only the rail's answer ends an order: we never release money of an order that may have been sent. With the
# fence in it, the statement needs no transaction: the slots are locked, and counted, before the first order.
_MARK: Final[LiteralString] = f"""
    with held as materialized ({lease_store.HOLD}),
    marked as (
        update open_order set handed_at = $4, due_at = $5
        where name = any($3) and handed_at is null and approval is distinct from 'awaited'
            and (select count(*) from held) = cardinality($1)
        returning name
    )
    select (select count(*) from held) = cardinality($1) as is_held, marked.name as marked_name, {TRANSFER.select}
    from (select) as one left join marked on true
    -- Beside the name the direction would tempt the plan of a small table to read all outgoing transfers.
    left join lateral (select * from transfer where end_to_end_id = marked.name offset 0) as transfer on direction = 'OUT'
"""


async def mark_handed(
    connection: Connection | Pool, epochs: Mapping[int, int], names: Sequence[str], now: datetime, due_at: datetime
) -> dict[str, Transfer | None] | None:
    """Mark orders that a worker is about to hand to the rail; it queries the rail at ``due_at`` if no answer comes.

    Args:
        epochs: Under which their slots are leased.

    Returns:
        The names marked now, each with its transfer, or ``None`` for a refund; no other order may be handed over. ``None``
        if one of the slots belongs to another worker.
    """
    rows = await connection.fetch(_MARK, list(epochs), list(epochs.values()), sorted(names), now, due_at)
    if not rows[0]["is_held"]:
        return None
    marked = [row for row in rows if row["marked_name"] is not None]
    return {row["marked_name"]: None if row["id"] is None else TRANSFER.read(row) for row in marked}


# Undo this try's own mark only, if no query was made since or was due before: an order once sent may have arrived.
_UNMARK: Final[LiteralString] = """
    update open_order set handed_at = null, due_at = $3 where name = any($1) and handed_at = $2 and asked_count = 0
        and due_at > $3
"""


async def unmark(connection: Connection, names: Sequence[str], marked_at: datetime, due_at: datetime) -> None:
    """Remove the mark of orders that certainly never left."""
    await connection.execute(_UNMARK, sorted(names), marked_at, due_at)


async def leave_unsent(pool: Pool, names: Sequence[str], due_at: datetime | None = None) -> None:
    """Postpone orders that may not be handed over: until an instant, or until they may be given up."""
    await pool.execute(
        "update open_order set due_at = least(give_up_at, $2) where name = any($1) and handed_at is null", sorted(names), due_at
    )


look_later: Final = Command[Sequence[str], datetime](
    "update open_order set due_at = $2 where name = any($1) and handed_at is not null"
)
"""Set the next query of marked orders, for any number of earlier queries."""


ask_now: Final = Command[datetime]("""
    update open_order set due_at = $1 where name in (
        select name from open_order where asked_count > 0 and due_at > $1 and institution_id is null
        order by name for update skip locked
    )
""")
"""Make the next query due of each order that the installation's own rail was queried about."""

# A querying worker may send again, but never without a mark, or the order could be given up after that. An order that waits at
# an institution for its first call is checked each second, which counts once, or its end would be queried minutes late.
_POSTPONE: Final[LiteralString] = """
    update open_order set due_at = new.due_at, asked_count = asked_count + case
        when institution_id is not null and asked_count > 0
            and exists (
                select from rail_step where order_name = open_order.name and state in ('new', 'minted') offset 0
            ) then 0
        else 1
    end
    from unnest($1::text[], $2::timestamptz[]) as new (name, due_at)
    where open_order.name = new.name and handed_at is not null returning open_order.name
"""


async def postpone(connection: Connection, due_at: dict[str, datetime]) -> set[str]:
    """Postpone orders, in a fenced transaction; return those still marked and open: only these may be queried."""
    names = sorted(due_at)
    rows = await connection.fetch(_POSTPONE, names, [due_at[name] for name in names])
    return {row["name"] for row in rows}


count_unresolved: Final = Value[int, datetime, int]("""
    select count(*) from (
        -- What waits for a person there is not silent: it is counted by its age.
        select from open_order where handed_at <= $1
            and not exists (select from waiting_order where order_name = name) limit $2
    ) as silent
""")
"""Count marked orders that the rail has not ended, up to ``count_max``."""

find_unresolved: Final = FindAll[OpenOrder, datetime, int | None, str | None, int](
    ORDER,
    """
        where handed_at <= $1 and ($2::bigint is null or holder_id = $2) and ($3::text is null or $3 in (name, network_id))
        order by handed_at limit $4
    """,
)
"""Find marked orders that the rail has not ended, longest silent first."""

# An outgoing and an incoming transfer under one name are one payment, of one amount.
# Without ``offset 0`` the plan of a small table reads all of it into a set, and is kept when the table has grown.
_FIND_TAKEN: Final[LiteralString] = """
    select name from unnest($1::text[], $2::bigint[]) as wanted (name, cents)
    where exists (select from transfer where end_to_end_id = name and (direction = 'OUT' or amount_cents <> cents))
        or exists (select from transfer where network_id = name offset 0)
        or exists (select from refund where return_id = name and (flow = 'OUT' or amount_cents <> cents))
        or exists (select from refund where network_id = name offset 0)
"""


async def find_taken_ids(connection: Connection, wanted: Sequence[tuple[str, int]]) -> set[str]:
    """Find those of these ids that cannot name an order of this amount in cents, because another fact has the name."""
    return {row["name"] for row in await connection.fetch(_FIND_TAKEN, *split_pairs(wanted))}


# Both rows of each are locked, and so is its holder's balance. Refunds of a transfer follow by a trigger.
_NAME: Final[LiteralString] = """
    with named as (
        select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) as named (id, holder_id, name, network_id)
    ), transfer_named as (
        update transfer set network_id = named.network_id, modified_at = $5 from named
        where left(named.name, 1) = 'E' and transfer.id = named.id and transfer.holder_id = named.holder_id
    ), refund_named as (
        update refund set network_id = named.network_id, modified_at = $5 from named
        where left(named.name, 1) = 'D' and refund.id = named.id and refund.holder_id = named.holder_id
    )
    update open_order set network_id = named.network_id from named where open_order.name = named.name
"""


async def name_all(connection: Connection, named: Sequence[tuple[Transfer | Refund, str]], now: datetime) -> None:
    """Record the network's names of transfers and refunds; they are shown from then on."""
    ids, holder_ids = [each.id for each, _ in named], [each.holder_id for each, _ in named]
    names, network_ids = [name_of(each) for each, _ in named], [network_id for _, network_id in named]
    await connection.execute(_NAME, ids, holder_ids, names, network_ids, now)


class WaitingOrder(Struct, frozen=True, kw_only=True):
    order_name: str
    transfer_id: int
    holder_id: int
    institution_id: int
    waits_for: WaitsFor
    since: datetime  # in service time


WAITING: Final = Table(
    "waiting_order",
    WaitingOrder,
    "order_name text, transfer_id bigint, holder_id bigint, institution_id smallint, waits_for text, since timestamptz",
    key=("order_name",),
)

find_waiting: Final = FindBy[str, WaitingOrder, Sequence[str]](WAITING, "order_name", "where order_name = any($1)")
"""Find those of these orders that have begun to wait, whether or not they still do."""

list_waiting_since: Final = Tuples[tuple[str, datetime], int]("""
    select institution_account.name as institution, waiting_order.since from waiting_order
    join open_order on open_order.name = order_name
    join institution_account on institution_account.id = waiting_order.institution_id
    order by waiting_order.since limit $1
""")
"""List the account and the start of each waiting order, longest waiting first."""

refuse_late: Final = Command[Sequence[str], datetime]("""
    update open_order set approval = 'refused' where name = any($1) and approval = 'awaited' and give_up_at <= $2
""")
"""Refuse those of these orders whose time for approval has passed: an approval that was committed before this stays."""
