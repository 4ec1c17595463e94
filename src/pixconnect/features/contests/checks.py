"""Proof rules of contests: each goes with its Pix, its block, its returns and its events."""

from functools import partial
from typing import Final

from pixconnect.kernel.rules.proof import Rule, RulePart

_rule: Final = partial(Rule, todo="ask the institution for its present blocks, and compare with an earlier backup")

CONTESTS: Final = (
    _rule(
        name="infraction_has_what_belongs_to_it",
        says="an infraction is of a received Pix, has taken what its returns come to, goes with its block, and has its events",
        broken="""
            select told.holder_id, array['infraction ' || told.id] as ids,
                format('%s of %s, block %s', coalesce(taken, 0), paid.amount_cents, block.state) as expected,
                format('%s %s of %s, %s', told.state, told.taken_cents, told.amount_cents, names) as found,
                told.modified_at as since
            from (select * from infraction where holder_id between $1 and $2) as told
            left join transfer as paid on paid.id = told.transfer_id and paid.holder_id = told.holder_id
            left join block on block.reference = told.name and block.holder_id = told.holder_id
                and block.institution_id is not distinct from told.institution_id
            left join lateral (
                select sum(refund.amount_cents) as taken from infraction_return as given
                join refund on refund.id = given.refund_id and refund.holder_id = given.holder_id
                where given.infraction_id = told.id and given.holder_id = told.holder_id
                    and refund.transfer_id = told.transfer_id and refund.made_by = 'institution'
            ) as returned on true
            cross join lateral (
                select string_agg(name, ' ' order by event.id) as names from event
                where event.resource = 'infraction' and resource_id = told.id and event.holder_id = told.holder_id
            ) as each
            where paid.id is null or paid.direction <> 'IN' or paid.settled_at is null or paid.amount_cents < told.amount_cents
                or block.id is null or block.transfer_id is distinct from told.transfer_id
                or told.taken_cents <> coalesce(taken, 0)
                or told.state in ('open', 'answered') and block.state <> 'open'
                or told.state = 'released' and block.state <> 'ended'
                or told.created_at >= {kept_since} and coalesce(names, '')
                    !~ ('^infraction.opened( infraction.reminded)*' || case told.state
                        when 'open' then '$'
                        when 'answered' then ' infraction.answered$'
                        when 'taken' then '( infraction.answered)?( infraction.taken)+$'
                        else '( infraction.answered)? infraction.released$'
                    end)
        """,
        meaning="the infraction, its block, a return or an event of it was written by hand or lost",
    ),
    _rule(
        name="contest_is_as_reported",
        says="a contest matches its events, can be answered while its block is open, and was reported before it was written",
        broken="""
            select told.holder_id, array['infraction ' || told.id] as ids,
                format('%s %s %s, by %s, told %s', said ->> 'amount', said ->> 'reason', said ->> 'situation',
                    block.respond_by, block.reported_at) as expected,
                format('%s %s %s, by %s, told %s', amount_cents, told.reason, situation, told.respond_by, told.reported_at)
                    as found,
                told.modified_at as since
            from (select * from infraction where holder_id between $1 and $2) as told
            left join block on block.reference = told.name and block.holder_id = told.holder_id and block.state = 'open'
                and block.institution_id is not distinct from told.institution_id
            left join lateral (
                select body::jsonb -> 'payload' as said from event
                where event.resource = 'infraction' and resource_id = told.id and event.holder_id = told.holder_id
                order by event.id desc limit 1
            ) as last on true
            where (said ->> 'amount')::bigint <> amount_cents
                or (said ->> 'reason', said ->> 'situation') <> (told.reason, situation)
                -- Words are emptied years after its end.
                or case when words is null and told.state in ('taken', 'released') then false
                    else said is not null and said ->> 'words' is distinct from words end
                -- A report of its block may be later.
                or told.reported_at > block.reported_at
                or told.reported_at = block.reported_at and told.respond_by <> block.respond_by
                or told.state = 'open' and defence is null and remind_at is null
                    and told.modified_at < told.respond_by - interval '6 hours'
            union all
            select holder_id, array[kind || ' ' || id], 'by ' || modified_at, 'told ' || reported_at, modified_at
            from (
                select holder_id, 'infraction' as kind, id, modified_at, reported_at from infraction
                union all
                select holder_id, 'block', id, modified_at, reported_at from block
            ) as each
            where holder_id between $1 and $2 and reported_at > modified_at + interval '1 day' and {runs_on}
        """,
        meaning="the holder answers too late or about something else, or later words of the institution are passed over",
    ),
)
PARTS: Final = (RulePart(rule="event_agrees_with_its_fact", selects="select 'infraction', id, holder_id from infraction"),)
