"""Both sides of the holders' money from PostgreSQL: the service's tables, and those of the other side of the rail."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import asyncpg
from msgspec import Struct

Kind = Literal["charge", "transfer", "refund"]

_THINGS = """
    select 'charge' as kind, id, holder_id, null as direction, false as is_book, external_id, txid as name, null as original,
        null as charge_id, amount_cents, status, null as code, null as network_id
    from charge where holder_id = any($1::bigint[])
    union all select 'transfer', id, holder_id, direction, is_book, external_id, end_to_end_id, null, charge_id, amount_cents,
        status, outcome_code, network_id from transfer where holder_id = any($1::bigint[])
    union all select 'refund', id, holder_id, flow, is_book, external_id, return_id, (
            select end_to_end_id from transfer where transfer.id = transfer_id and transfer.holder_id = refund.holder_id
        ), null, amount_cents, status, outcome_code, network_id from refund where holder_id = any($1::bigint[])
"""
_EVENTS = """
    select resource, resource_id, array_agg(name order by id) as names from event
    where holder_id = any($1::bigint[]) group by 1, 2
"""
_RAIL = """
    select id as name, false as is_arrival, amount_cents, code, is_open from sandbox.settlement
    where not is_closed and (id = any($1::text[]) or not exists (
        select from transfer where end_to_end_id = settlement.id and direction = 'OUT'
        union all select from refund where return_id = settlement.id and flow = 'OUT'
    ))
    -- What the institution will take of what is contested stands there ahead, and is told with the time that it has.
    and id not in (
        select part ->> 'return_id' from sandbox.infraction
        cross join jsonb_array_elements(next_report::jsonb -> 'taken') as part
        where not exists (
            select from jsonb_array_elements(report::jsonb -> 'taken') as told
            where told ->> 'return_id' = part ->> 'return_id'
        )
    )
    union all select id, true, amount_cents, code, is_open from sandbox.arrival
    where kind = 'credit' and key = any($2::text[]) or kind = 'return' and original_id = any($1::text[])
"""
# Contests as (state, taken, wanted, held) by name; an ended contest has no block.
_CONTESTS = """
    select name, infraction.state, taken_cents, wanted_cents, held_cents, send_at is not null as is_open
    from infraction join block on reference = name and block.holder_id = infraction.holder_id
    where infraction.holder_id = any($1::bigint[])
"""
_RAIL_CONTESTS = """
    select name, report::jsonb ->> 'state' as state, is_open, (
            select coalesce(sum((part ->> 'amount_cents')::bigint), 0)::bigint
            from jsonb_array_elements(report::jsonb -> 'taken') as part
        ) as taken_cents, case report::jsonb ->> 'state' when 'released' then 0
            else (report::jsonb ->> 'wanted_cents')::bigint end as wanted_cents, case report::jsonb ->> 'state'
            when 'released' then 0 else (report::jsonb ->> 'held_cents')::bigint end as held_cents
    from sandbox.infraction where report::jsonb ->> 'end_to_end_id' = any($1::text[])
"""


_MOVED = """
    select item_id, holder_id, direction, amount_cents, outcome_code as code, false as is_open, (
        select string_agg(name, ' ' order by id) from event where event.resource = 'movement'
            and resource_id = coalesce(entry_id, deficit_entry_id) and event.holder_id = movement.holder_id
    ) as events
    from movement where holder_id = any($1::bigint[])
"""
_RAIL_MOVED = """
    select arrival.id as item_id, holder.id as holder_id, case kind when 'movement_in' then 'IN' else 'OUT' end as direction,
        amount_cents, code, is_open
    from sandbox.arrival join holder on holder.account_number = report::jsonb -> 'party' ->> 'account_number'
    where kind in ('movement_in', 'movement_out') and holder.id = any($1::bigint[])
"""


class Thing(Struct, kw_only=True):
    """A charge, transfer or refund in the service's tables; ``name`` and ``original`` are our ids."""

    kind: Kind
    id: int
    holder_id: int
    direction: Literal["IN", "OUT"] | None
    is_book: bool
    external_id: str | None
    name: str
    original: str | None
    charge_id: int | None
    amount_cents: int
    status: str
    code: str | None
    events: list[str]
    network_id: str | None = None  # the network's id, if it differs from ours

    @property
    def is_open(self) -> bool:
        return self.status == "PROCESSING"

    @property
    def is_settled(self) -> bool:
        return self.status in {"CONFIRMED", "RETURNED"} and self.kind != "charge"


class RailThing(Struct, kw_only=True):
    """An order, refund order, payment or return on the other side of the rail; ``code`` is None if it settles."""

    name: str
    is_arrival: bool
    amount_cents: int
    code: str | None
    is_open: bool


class Moved(Struct, frozen=True, kw_only=True):
    """A movement by the institution itself, on one side; ``code`` is None if it was made."""

    item_id: str
    holder_id: int
    direction: Literal["IN", "OUT"]
    amount_cents: int
    code: str | None
    is_open: bool
    events: str | None = None  # the transfers and refunds that the service recorded for it

    @property
    def change_cents(self) -> int:
        if self.code is not None or self.is_open:
            return 0
        return self.amount_cents if self.direction == "IN" else -self.amount_cents


class Contest(Struct, frozen=True, kw_only=True):
    """A contest on one side; ``is_open`` means that a message about it is still outstanding."""

    name: str
    state: str
    taken_cents: int
    wanted_cents: int
    held_cents: int
    is_open: bool


class Seen(Struct, kw_only=True):
    """Both sides at one instant: balances as (available, reserved, owed) by holder, deposits as amounts in their ledgers."""

    things: list[Thing]
    balances: dict[int, tuple[int, int, int]]
    deposits: dict[int, Counter[int]]
    rail: list[RailThing]
    moved: list[Moved]
    rail_moved: list[Moved]
    blocked: dict[int, int]  # the blocked balance of each holder
    held: dict[int, int]  # the cents that open blocks claim; the blocked balance holds at most that much
    contests: list[Contest]
    rail_contests: list[Contest]
    waiting_count: int = 0  # deliveries that were not made yet

    @property
    def is_at_rest(self) -> bool:
        return not self.list_unrest()

    def list_unrest(self) -> list[str]:
        lists = (self.things, self.rail, self.rail_moved, self.contests, self.rail_contests)
        found = [str(thing) for things in lists for thing in things if thing.is_open]
        return found + ([f"deliveries that wait: {self.waiting_count}"] if self.waiting_count else [])


async def read_things(connection: asyncpg.Connection, holder_ids: Sequence[int]) -> list[Thing]:
    told = {(row["resource"], row["resource_id"]): row["names"] for row in await connection.fetch(_EVENTS, holder_ids)}
    return [
        Thing(**dict(row), events=told.get((row["kind"], row["id"]), [])) for row in await connection.fetch(_THINGS, holder_ids)
    ]


async def read_both_sides(connection: asyncpg.Connection, keys: Mapping[int, str]) -> Seen:
    """Read both sides in one transaction; ``keys`` has the Pix key of each holder."""
    holder_ids = list(keys)
    things = await read_things(connection, holder_ids)
    sent = [thing.name for thing in things if thing.direction == "OUT"]
    received = [thing.name for thing in things if thing.kind == "transfer" and thing.direction == "IN"]
    rail = await connection.fetch(_RAIL, sent, list(keys.values()))
    held = await connection.fetch(
        "select holder_id, sum(held_cents)::bigint as cents from block"
        " where state = 'open' and holder_id = any($1::bigint[]) group by 1",
        holder_ids,
    )
    balances = await connection.fetch("select * from whole_balance where holder_id = any($1::bigint[])", holder_ids)
    deposits: dict[int, Counter[int]] = {holder_id: Counter() for holder_id in holder_ids}
    for row in await connection.fetch(
        "select holder_id, amount_cents from ledger_entry where debit_account = 'funding' and holder_id = any($1::bigint[])",
        holder_ids,
    ):
        deposits[row["holder_id"]][row["amount_cents"]] += 1
    return Seen(
        things=things,
        balances={row["holder_id"]: (row["available_cents"], row["reserved_cents"], row["deficit_cents"]) for row in balances},
        deposits=deposits,
        rail=[RailThing(**dict(row)) for row in rail],
        moved=[Moved(**dict(row)) for row in await connection.fetch(_MOVED, holder_ids)],
        rail_moved=[Moved(**dict(row)) for row in await connection.fetch(_RAIL_MOVED, holder_ids)],
        blocked={row["holder_id"]: row["blocked_cents"] for row in balances},
        held={row["holder_id"]: row["cents"] for row in held},
        contests=[Contest(**dict(row)) for row in await connection.fetch(_CONTESTS, holder_ids)],
        rail_contests=[Contest(**dict(row)) for row in await connection.fetch(_RAIL_CONTESTS, received)],
        waiting_count=await connection.fetchval(
            "select count(*) from delivery where status = 'pending' and holder_id = any($1::bigint[])", holder_ids
        ),
    )
