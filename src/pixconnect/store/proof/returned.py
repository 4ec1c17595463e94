"""The rules of refunds and their originals, and of the two sides of what was settled by book."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.domain.proof.rule import Rule

_rule: Final = partial(
    Rule,
    todo="compare both with the rail's statement of their days; a refund that the rail does not know did not leave",
)

# Refunds that were refused are judged less: what they were refused for may be that they fit to nothing.
RETURNED: Final = (
    _rule(
        name="transfer_knows_its_refunds",
        says="a transfer knows what was returned of it, and what is being returned",
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
    _rule(
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
    _rule(
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
    _rule(
        name="network_name_is_one_fact",
        says="a name of the network is one fact in each direction, of one amount, whoever the holder is",
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
    _rule(
        name="movement_is_its_own_line",
        says="a movement is no transfer or refund, unless it was taken back: by its opposite, and its line is something else",
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
                    where item.institution_id = movement.institution_id and joined_kind = 'movement'
                        and joined_id = movement.opposite_of
                )
            )
        """,
        meaning="one item was counted twice; or a movement was taken back twice, or in part, or was none",
    ),
)
