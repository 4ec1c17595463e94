"""The trace of each pending request: orders by their names, deliveries by their resources."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.kernel.tables.lookup import Tuples

Resource = tuple[str, int, int]  # the resource of a delivery: its kind, id and holder


class TracedOrder(Struct, frozen=True, kw_only=True):
    """When an order was requested, in service time, and its trace."""

    at: datetime
    traceparent: str


# Nothing leads from one holder to another: each of two holders of a book transfer has its own trace, or none.
find_of_resources: Final = Tuples[tuple[str, int, int, str | None], Sequence[str], Sequence[int], Sequence[int]]("""
    with wanted as (select * from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (resource, resource_id, holder_id)),
    -- Each is looked up by its key (``offset 0``): a join may read the whole table in a plan that was made while it was small.
    fact as (
        select resource, resource_id, holder_id, 'charge' as kind, id, created_at as at
        from wanted cross join lateral (
            select id, created_at from charge where id = resource_id and charge.holder_id = wanted.holder_id offset 0
        ) as charge where resource = 'charge'
        union all
        select resource, resource_id, holder_id, kind, id, at
        from wanted cross join lateral (
            select 'transfer' as kind, id, created_at as at from transfer
            where id = resource_id and transfer.holder_id = wanted.holder_id and direction = 'OUT'
            union all
            select 'charge', charge.id, charge.created_at from transfer
            join charge on charge.id = charge_id and charge.holder_id = transfer.holder_id
            where transfer.id = resource_id and transfer.holder_id = wanted.holder_id
            offset 0
        ) as transfer where resource in ('transfer', 'pix')
        union all
        select resource, resource_id, holder_id, 'refund', id, created_at
        from wanted cross join lateral (
            select id, created_at from refund where id = resource_id and refund.holder_id = wanted.holder_id offset 0
        ) as refund where resource = 'refund'
    )
    select resource, resource_id, holder_id, traceparents[array_position(ids, fact.id)] as traceparent
    from fact join origin_batch using (holder_id, kind, at)
    where traceparents is not null and fact.id = any(ids)
""")
"""Find the ``traceparent`` of each of these that has one; a payment has that of the charge that it pays."""

find_of_orders: Final = Tuples[tuple[str, datetime, str | None], Sequence[str]]("""
    with fact as (
        select end_to_end_id as name, 'transfer' as kind, id, holder_id, created_at as at
        from transfer where end_to_end_id = any($1::text[]) and direction = 'OUT'
        union all
        select return_id, 'refund', id, holder_id, created_at
        from refund where return_id = any($1::text[]) and flow = 'OUT'
    )
    select name, at, traceparents[array_position(ids, fact.id)] as traceparent
    from fact join origin_batch using (holder_id, kind, at)
    where traceparents is not null and fact.id = any(ids)
""")
"""Find the request time and the trace of these orders."""
