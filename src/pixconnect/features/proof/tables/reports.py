"""Rules of kept reports, of refusals, and of recorded origins: each against its subject."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.features.proof.rules import Rule

_ASK: Final = "look at the report and its subject: `pixconnect report list --all`; the rail's settlement is the truth"

_ASK_CLIENT: Final = "ask the holder whether they requested it: `pixconnect find ID` shows the recorded client"
# Kept for 400 days, the oldest are deleted first: anything older than the first kept one was recorded once.
_TOLD_SINCE: Final[LiteralString] = """(
    select min(at) + case min(id) when 1 then interval '0' else interval '1 day' end
    from (select id, at from origin_batch order by id limit 1000) as oldest
)"""

REPORTS: Final = (
    Rule(
        name="kept_report_is_as_it_came",
        says="a kept report has the kind and name in its text, and the fact that it contradicts or repeats is here",
        # Its text may contain characters that PostgreSQL's JSON rejects: a report is kept unabridged.
        broken="""
            select null::bigint as holder_id, array['report ' || id] as ids, format('%s %s', kind, name) as expected,
                left(report, 200) as found, first_seen_at as since
            from kept_report
            where kind <> 'unreadable' and (
                strpos(report, format('"type": "%s"', kind)) = 0
                or name ~ '^[a-zA-Z0-9]+$' and strpos(report, format('"%s"', name)) = 0
            ) or last_seen_at < first_seen_at or (
                reason = 'contradiction' and kind in ('settled', 'rejected', 'taken', 'never_taken')
                or reason = 'changed_repeat' and kind in ('credit', 'return', 'movement')
            ) and not exists (
                select from transfer where end_to_end_id = kept_report.name
                union all select from transfer where network_id = kept_report.name
                union all select from refund where return_id = kept_report.name
                union all select from refund where network_id = kept_report.name
                union all select from movement where item_id = kept_report.name
            )
        """,
        of="installation",
        meaning="its subject was lost, or the report was written by hand: closing it decides about another payment",
        todo=_ASK,
    ),
    Rule(
        name="what_was_refused_is_not_here",
        says="a payment or return that was refused has brought no money",
        broken="""
            select here.holder_id, array[refused.subject, here.what] as ids, 'refused with ' || refusal_code as expected,
                here.amount_cents::text as found, here.settled_at as since
            from (
                select 'report ' || id as subject, name, refusal_code from kept_report where refusal_code is not null
                union all
                select 'refusal ' || name, name, refusal_code from refused_credit
            ) as refused
            join (
                select holder_id, end_to_end_id as name, 'transfer ' || id as what, amount_cents, settled_at
                from transfer where direction = 'IN' and settled_at is not null
                union all
                select holder_id, return_id, 'refund ' || id, amount_cents, settled_at
                from refund where flow = 'IN' and settled_at is not null
            ) as here using (name)
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="the payer has the money back, and the holder has it too: one of the two was written by hand",
        todo=_ASK,
    ),
    Rule(
        name="fact_has_its_origin",
        says="each request of a client has its origin recorded, once",
        broken="""
            with asked as (
                select 'transfer' as kind, id, holder_id, created_at from {transfers} as transfer where direction = 'OUT'
                union all
                select 'refund', id, holder_id, created_at from {refunds} as refund
                where flow = 'OUT' and made_by = 'service' and not starts_with(external_id, 'auto:')
                union all
                select 'charge', id, holder_id, created_at from {charges} as charge
            )
            -- Gathered, and not joined: where PostgreSQL expects few of them, it would look for each among all.
            select holder_id, array[kind || ' ' || id] as ids, '1' as expected, count(batch_id)::text as found,
                min(created_at) as since
            from (
                select kind, holder_id, id, created_at, null::bigint as batch_id from asked
                union all
                select moment.kind, moment.holder_id, each.id, null, batch.id
                from (select distinct kind, holder_id, created_at from asked) as moment
                -- Looked up for each (`offset 0` enforces it): otherwise all requests ever made would be read and discarded.
                cross join lateral (
                    select id, ids from origin_batch
                    where holder_id = moment.holder_id and kind = moment.kind and at = moment.created_at offset 0
                ) as batch
                cross join lateral unnest(ids) as each (id)
            ) as listed
            group by kind, holder_id, id
            having count(batch_id) <> 1 and min(created_at) >= """
        + _TOLD_SINCE
        + """
        """,
        meaning="the recorded origin was lost or written by hand, or the request was invented",
        todo=_ASK_CLIENT,
    ),
    Rule(
        name="origin_is_of_its_fact",
        says="each recorded origin has its request, of that holder, at that instant, by one of the holder's clients",
        broken="""
            with batch as materialized (select * from origin_batch where holder_id between $1 and $2)
            select batch.holder_id, array[batch.kind || ' ' || each.id, 'origin ' || batch.id] as ids,
                batch.at::text as expected,
                coalesce(transfer.created_at, refund.created_at, charge.created_at)::text as found, batch.at as since
            from batch cross join lateral unnest(ids) as each (id)
            left join transfer on batch.kind = 'transfer' and transfer.id = each.id
                and transfer.holder_id = batch.holder_id and direction = 'OUT'
            left join refund on batch.kind = 'refund' and refund.id = each.id and refund.holder_id = batch.holder_id
                and flow = 'OUT'
            left join charge on batch.kind in ('charge', 'charge_change') and charge.id = each.id
                and charge.holder_id = batch.holder_id
            where case batch.kind
                when 'endpoint' then false
                when 'charge_change' then charge.id is null
                else coalesce(transfer.created_at, refund.created_at, charge.created_at) is distinct from batch.at
            end
            union all
            select batch.holder_id, array['origin ' || id], 'one of holder ' || batch.holder_id,
                coalesce(operator, format('%s of holder %s', batch.client_id, client.holder_id)), at
            from batch left join client using (client_id)
            where client.holder_id <> batch.holder_id and client.holder_id is distinct from (
                    select successor_id from holder where holder.id = batch.holder_id
                ) or (batch.client_id is null) = (operator is null)
                or cardinality(ids) <> cardinality(request_ids)
        """,
        is_of_whole_runs=True,
        meaning="the recorded origin was written by hand, or the request was lost",
        todo=_ASK_CLIENT,
    ),
)
