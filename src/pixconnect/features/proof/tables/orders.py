"""The rules of pending orders, of refunds and their originals, and of both sides of book transfers."""

from functools import partial
from typing import Final

from pixconnect.kernel.rules.proof import Rule

_rule: Final = partial(Rule, todo="look at it with `pixconnect find ID`, and let the rail's statement of its day decide")

# No rule here decides how an order ended: only the rail does.
ORDERS: Final = (
    _rule(
        name="under_way_has_order",
        says="each pending transfer or refund over the rail or an account has its order there, and there is no other",
        broken="""
            select coalesce(under_way.holder_id, open_order.holder_id) as holder_id,
                array['order ' || coalesce(under_way.name, open_order.name)] as ids,
                format('%s %s %s at %s', under_way.id, under_way.holder_id, under_way.slot, under_way.institution_id)
                    as expected,
                format('%s %s %s at %s', resource_id, open_order.holder_id, open_order.slot, open_order.institution_id)
                    as found,
                coalesce(modified_at, ordered_at) as since
            from (
                select end_to_end_id as name, id, holder_id, slot, modified_at, network_id, institution_id from transfer
                where holder_id between $1 and $2 and direction = 'OUT' and status = 'PROCESSING' and not is_book
                union all
                select return_id, refund.id, refund.holder_id, refund.slot, refund.modified_at, refund.network_id,
                    institution_id
                from refund left join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
                where refund.holder_id between $1 and $2 and flow = 'OUT' and refund.status = 'PROCESSING'
                    and not refund.is_book
            ) as under_way
            full join (select * from open_order where holder_id between $1 and $2) as open_order using (name)
            where (
                under_way.id, under_way.holder_id, under_way.slot, under_way.network_id, under_way.institution_id
            ) is distinct from (
                resource_id, open_order.holder_id, open_order.slot, open_order.network_id, open_order.institution_id
            )
        """,
        meaning="money is reserved for an order that no worker looks at, or an order is asked about for nothing",
    ),
    _rule(
        name="order_is_looked_at_in_time",
        says="no order waits longer than the longest pause",
        broken="""
            select holder_id, array[name] as ids, 'within a day' as expected, due_at::text as found, ordered_at as since
            from open_order
            where holder_id between $1 and $2
                and due_at > greatest(ordered_at, handed_at, give_up_at, clock_timestamp()) + interval '1 day'
                and not exists (select from clock where offset_us <> 0)
        """,
        meaning="the instant was written by hand, or a clock jumped",
        todo="set its due_at to now as the owner: a worker then looks at it",
    ),
    _rule(
        name="what_was_refused_moved_nothing",
        says="a transfer or refund that failed has given back what it had reserved",
        broken="""
            select failed.holder_id, array[failed.kind || ' ' || failed.id] as ids, '0' as expected,
                sum(case debit_account when 'available' then amount_cents else -amount_cents end)::bigint::text as found,
                max(created_at) as since
            from (
                select 'transfer' as kind, id, holder_id from {transfers} as transfer where status in ('ERROR', 'CANCELLED')
                union all
                select 'refund', id, holder_id from {refunds} as refund where status = 'ERROR'
            ) as failed
            join ledger_entry as entry on entry.cause_id = failed.id and entry.holder_id = failed.holder_id
                and entry.cause_kind::text = failed.kind
            group by failed.kind, failed.id, failed.holder_id
            having sum(case debit_account when 'available' then amount_cents else -amount_cents end) <> 0
                or bool_or('settlement' in (debit_account, credit_account))
        """,
        meaning="an entry of it was lost, or its state was written by hand",
    ),
)


_of_refunds: Final = partial(
    Rule, todo="compare both with the rail's statement of their days; a refund that the rail does not know did not leave"
)

# Refused refunds have fewer checks: they may have been refused because they match nothing.
RETURNED: Final = (
    _of_refunds(
        name="transfer_knows_its_refunds",
        says="a transfer has the sums of its settled and pending refunds",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id] as ids,
                format('%s %s', coalesce(returned, 0), coalesce(under_way, 0)) as expected,
                format('%s %s', returned_cents, returning_cents) as found, transfer.modified_at as since
            from {transfers} as transfer
            left join lateral (
                select sum(amount_cents) filter (where status = 'RETURNED') as returned,
                    sum(amount_cents) filter (where status = 'PROCESSING' and flow = 'OUT') as under_way
                from refund where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
            ) as given on true
            where (returned_cents, returning_cents) is distinct from (coalesce(returned, 0), coalesce(under_way, 0))
        """,
        meaning="a refund was lost or invented, or the sums were written by hand",
    ),
    _of_refunds(
        name="refund_agrees_with_original",
        says="a refund goes the other way than its original, settled after it, and names it",
        broken="""
            select refund.holder_id, array['refund ' || refund.id, 'transfer ' || refund.transfer_id] as ids,
                format('%s %s %s %s', case direction when 'IN' then 'OUT' else 'IN' end, transfer.is_book, transfer.slot,
                    coalesce(transfer.network_id, transfer.end_to_end_id)) as expected,
                format('%s %s %s %s', flow, refund.is_book, refund.slot, original_end_to_end_id) as found,
                refund.created_at as since
            from {refunds} as refund
            left join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
            where transfer.id is null or (flow = 'OUT') <> (direction = 'IN') or refund.slot <> transfer.slot
                or original_end_to_end_id <> coalesce(transfer.network_id, transfer.end_to_end_id)
                or refund.status <> 'ERROR' and (
                    transfer.settled_at is null or refund.is_book <> transfer.is_book
                    or refund.created_at < transfer.settled_at and {runs_on}
                )
        """,
        meaning="the refund was moved to another original, or one of the two was written by hand",
    ),
    _of_refunds(
        name="sides_of_book_agree",
        says="a transfer or refund by book has two sides, of one amount and state, of two holders",
        broken="""
            select own.holder_id, array[kind || ' ' || own.id] as ids,
                format('%s %s %s', own.amount_cents, own.status, own.returned_cents) as expected,
                format('%s %s %s', other.amount_cents, other.status, other.returned_cents) as found, own.created_at as since
            from (
                select 'transfer' as kind, id, holder_id, end_to_end_id as name, direction, amount_cents, status,
                    returned_cents, settled_at, created_at
                from {transfers} as transfer where is_book
                union all
                select 'refund', id, holder_id, return_id, flow, amount_cents, status, null, settled_at, created_at
                from {refunds} as refund where is_book
            ) as own
            left join lateral (
                select holder_id, amount_cents, status, returned_cents, settled_at from transfer
                where kind = 'transfer' and end_to_end_id = own.name and direction <> own.direction and is_book
                union all
                select holder_id, amount_cents, status, null, settled_at from refund
                where kind = 'refund' and return_id = own.name and flow <> own.direction and is_book
            ) as other on true
            where other.holder_id is null or other.holder_id = own.holder_id
                or (own.amount_cents, own.status, own.returned_cents, own.settled_at)
                    is distinct from (other.amount_cents, other.status, other.returned_cents, other.settled_at)
        """,
        meaning="one side was lost or written by hand: what one holder paid or returned is not what the other got",
        todo="compare both holders' entries; the side with its entry and event is the true one",
    ),
    _of_refunds(
        name="network_name_is_one_fact",
        says="a name of the network is one fact in each direction, of one amount, across all holders",
        broken="""
            select holder_id, array[name] as ids, '1' as expected, facts_count::text as found, since
            from (
                select min(holder_id) as holder_id, name, count(*) as facts_count, max(created_at) as since
                from (
                    select holder_id, network_id as name, 'OUT' as direction, amount_cents, created_at from transfer
                    where network_id is not null
                    union all
                    select holder_id, network_id, 'OUT', amount_cents, created_at from refund where network_id is not null
                    union all
                    select holder_id, end_to_end_id, direction, amount_cents, created_at from transfer
                    union all
                    select holder_id, return_id, flow, amount_cents, created_at from refund
                ) as known
                group by name
                having count(*) <> count(distinct direction) or min(amount_cents) <> max(amount_cents)
            ) as double
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="one payment was recorded twice, or a name was written by hand",
    ),
    _of_refunds(
        name="movement_is_its_own_line",
        says="a movement is no transfer or refund, unless it was taken back: its line is something else, or struck",
        broken="""
            select movement.holder_id, array['movement ' || movement.item_id] as ids,
                format('%s %s', undone.direction, undone.amount_cents) as expected,
                format('%s %s', movement.direction, movement.amount_cents) as found, movement.created_at as since
            from (select * from movement where holder_id between $1 and $2) as movement
            left join movement as undone on undone.holder_id = movement.holder_id and undone.item_id = movement.opposite_of
            where (
                exists (select from transfer where end_to_end_id = movement.item_id)
                or exists (select from transfer where network_id = movement.item_id)
                or exists (select from refund where return_id = movement.item_id)
                or exists (select from refund where network_id = movement.item_id)
            ) and not exists (
                select from movement as opposite
                where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
            ) or movement.opposite_of is not null and (
                undone.item_id is null or undone.opposite_of is not null or undone.direction = movement.direction
                or undone.amount_cents <> movement.amount_cents
                or exists (
                    select from institution_item as item
                    where item.institution_id = movement.institution_id and (
                        joined_kind = 'movement' and joined_id = movement.opposite_of
                        or joined_kind is null and waits is distinct from 'struck' and item_id = movement.opposite_of
                    )
                )
            )
        """,
        meaning="one item was counted twice; or a movement was taken back twice, or in part, or was none",
    ),
)
