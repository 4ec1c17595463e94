"""Proof rules of money that institutions have blocked: each block is the sum of its steps, and each step is an entry."""

from functools import partial
from typing import Final

from pixconnect.kernel.rules.proof import Rule, RulePart

_rule: Final = partial(Rule, todo="ask the institution for its present blocks, and compare with an earlier backup")

BLOCKS: Final = (
    _rule(
        name="blocked_is_in_blocks",
        says="a balance's blocked amount is the sum that its open blocks cover, and it counts them",
        broken="""
            select balance.holder_id, array['balance'] as ids,
                format('%s %s', coalesce(covered, 0), coalesce(open_count, 0)) as expected,
                format('%s %s', blocked_cents, blocks_count) as found, modified_at as since
            from (select * from balance where holder_id between $1 and $2) as balance
            left join (
                select holder_id, sum(covered_cents)::bigint as covered, count(*) filter (where state = 'open') as open_count
                from block where holder_id between $1 and $2 group by holder_id
            ) as kept using (holder_id)
            where (blocked_cents, blocks_count) is distinct from (coalesce(covered, 0), coalesce(open_count, 0))
        """,
        meaning=(
            "a block was lost, invented or written by hand: money is held without reason, or is free "
            "although the institution blocks it"
        ),
    ),
    _rule(
        name="block_is_its_steps",
        says="a block covers the sum of its steps; money taken from it was returned",
        broken="""
            select holder_id, array['block ' || block_id] as ids, coalesce(stepped, 0)::text as expected,
                covered_cents::text as found, modified_at as since
            from (select *, id as block_id from block where holder_id between $1 and $2) as block
            full join (
                select block_id, holder_id, count(refund_id) as taken_count,
                    sum(case when kind in ('covered', 'held') then amount_cents else -amount_cents end)::bigint as stepped
                from block_step where holder_id between $1 and $2 group by block_id, holder_id
            ) as steps using (block_id, holder_id)
            where covered_cents is distinct from coalesce(stepped, 0) or taken_count <> (
                select count(*) from block_step as step
                join refund on refund.id = refund_id and refund.holder_id = step.holder_id
                where step.block_id = block.block_id and step.holder_id = block.holder_id and made_by = 'institution'
                    and refund.transfer_id = block.transfer_id and refund.amount_cents >= step.amount_cents
            )
        """,
        meaning="a step was lost or invented, or the block was written by hand",
    ),
    _rule(
        name="blocks_are_covered_first",
        says="nothing is available while less is blocked here than at the institution",
        broken="""
            select block.holder_id, array['block ' || block.id] as ids, held_cents::text as expected,
                covered_cents::text as found, block.modified_at as since
            from (select * from block where holder_id between $1 and $2 and state = 'open') as block
            join balance using (holder_id)
            where covered_cents < held_cents and available_cents > 0
        """,
        meaning="money that the institution has blocked could be spent here, and the institution would reject the order",
    ),
    _rule(
        name="suspect_credit_is_held_whole",
        says=(
            "a suspect credit's block holds all of its Pix while it is under way, and nothing afterwards; it was announced once"
        ),
        broken="""
            select block.holder_id, array['block ' || block.id] as ids,
                format('%s %s, told once', transfer.status, transfer.amount_cents) as expected,
                format('%s %s, told %s', block.state, covered_cents, times) as found, block.modified_at as since
            from (select * from block where holder_id between $1 and $2 and kind = 'precautionary') as block
            left join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
            cross join lateral (
                select count(*) as times from event
                where event.resource = 'transfer' and resource_id = block.transfer_id and event.holder_id = block.holder_id
                    and name = 'transfer.in.held' and event.created_at >= block.created_at
            ) as told
            where transfer.id is null or (block.state = 'open') <> (transfer.status = 'PROCESSING')
                or block.state = 'open' and covered_cents <> transfer.amount_cents
                or told.times <> 1 and block.created_at >= {kept_since}
        """,
        meaning="the block, its transfer or the event of it was written by hand or lost",
    ),
)
PARTS: Final = (
    RulePart(
        rule="event_agrees_with_its_fact",
        selects="""
            select 'movement', moved.id, holder_id from movement
            cross join lateral (values (entry_id), (deficit_entry_id)) as moved (id)
        """,
    ),
)
