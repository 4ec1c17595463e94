"""Rules about what the rail reports: kept reports, refusals and recorded origins, and settlements against the rail's own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

import msgspec

from pixconnect.features.proof.tables.look import read_finding
from pixconnect.kernel.rules.proof import Finding, Rule
from pixconnect.kernel.rules.rail import SettledItem
from pixconnect.platform.pool import Connection

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
                when 'charge_change' then charge.id is null
                else batch.kind in ('transfer', 'refund', 'charge')
                    and coalesce(transfer.created_at, refund.created_at, charge.created_at) is distinct from batch.at
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


_encode = msgspec.json.Encoder().encode

_THEIRS: Final[LiteralString] = """
    theirs as (
        select * from jsonb_to_recordset($1::jsonb) as item (
            id text, kind text, amount_cents bigint, settled_at timestamptz
        )
    )
"""
# Book transfers and accounts at institutions do not use this rail.
_OURS: Final[LiteralString] = """
    select coalesce(network_id, end_to_end_id) as id, case direction when 'OUT' then 'order' else 'credit' end as kind,
        amount_cents, settled_at, holder_id
    from transfer where settled_at is not null and not is_book and institution_id is null and {transfers}
    union all
    select coalesce(refund.network_id, return_id), case flow when 'OUT' then 'refund' else 'return' end, refund.amount_cents,
        refund.settled_at, refund.holder_id
    from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
    where refund.settled_at is not null and not refund.is_book and institution_id is null and {refunds}
    union all
    select item_id, 'movement_' || lower(direction), amount_cents, created_at, holder_id
    from movement where status = 'POSTED' and institution_id is null and {movements}
    union all
    select reference || '/' || step.kind, step.kind, amount_cents, step.created_at, step.holder_id
    from block_step as step join block on block.id = block_id and block.holder_id = step.holder_id
    where block.kind = 'precautionary' and institution_id is null and {steps}
"""
# Facts with an id are compared by id on both sides, regardless of their dates. Of the full joins only one side's rows are kept:
# any other join would go through all facts for each item while PostgreSQL has not analyzed the tables.
_BY_NAME: Final[LiteralString] = (
    _OURS.replace(
        "{transfers}",
        "(end_to_end_id in (select id from theirs) and network_id is null or network_id in (select id from theirs))",
    )
    .replace(
        "{refunds}",
        "(return_id in (select id from theirs) and refund.network_id is null or refund.network_id in (select id from theirs))",
    )
    .replace("{movements}", "item_id in (select id from theirs)")
    .replace("{steps}", "reference in (select split_part(id, '/', 1) from theirs where theirs.kind in ('held', 'hold_ended'))")
)
_BY_INSTANT: Final[LiteralString] = (
    _OURS.replace("{transfers}", "settled_at >= $2 and settled_at < $3")
    .replace("{refunds}", "refund.settled_at >= $2 and refund.settled_at < $3")
    .replace("{movements}", "created_at >= $2 and created_at < $3")
    .replace("{steps}", "step.created_at >= $2 and step.created_at < $3")
)
_WHAT_MAY_BE: Final = "a report was lost, a row was written by hand, or a restored backup lacks settlements"

ITEMS: Final = Rule(
    name="rail_settled_the_same",
    says="each settlement on the rail exists here with the same amount, and the other way round",
    broken=f"""
        with {_THEIRS}
        select ours.holder_id, array[theirs.kind || ' ' || theirs.id] as ids, theirs.amount_cents::text as expected,
            ours.amount_cents::text as found, theirs.settled_at as since
        from theirs full join ({_BY_NAME}) as ours on ours.id = theirs.id and ours.kind = theirs.kind
        where coalesce(theirs.settled_at >= $2 and theirs.settled_at < $3, false)
            and ours.amount_cents is distinct from theirs.amount_cents
        union all
        select ours.holder_id, array[ours.kind || ' ' || ours.id], null, ours.amount_cents::text, ours.settled_at
        from theirs full join ({_BY_INSTANT}) as ours on ours.id = theirs.id and ours.kind = theirs.kind
        where theirs.id is null
    """,
    of="rail",
    meaning=_WHAT_MAY_BE,
    todo="let the worker run until nothing is open; report the remaining differences to the rail's support with both sides",
)
# Money at institutions is elsewhere. Facts that only one side has yet are listed item by item, and are no difference of the
# sums.
SUM: Final = Rule(
    name="rail_holds_the_same",
    says="the rail holds the difference of incoming and outgoing money here, with facts known to one side only counted",
    broken=f"""
        with {_THEIRS},
        ahead as (
            select coalesce(sum(case when theirs.kind in ('credit', 'return', 'movement_in', 'held') then 1 else -1 end
                * (theirs.amount_cents - coalesce(ours.amount_cents, 0))), 0) as cents
            from theirs full join ({_BY_NAME}) as ours on ours.id = theirs.id and ours.kind = theirs.kind
            where coalesce(theirs.settled_at >= $2, false)
        ),
        behind as (
            select coalesce(sum(case when ours.kind in ('credit', 'return', 'movement_in', 'held') then 1 else -1 end
                * ours.amount_cents), 0) as cents
            from theirs full join ({_BY_INSTANT}) as ours on ours.id = theirs.id and ours.kind = theirs.kind
            where theirs.id is null
        ),
        held as (
            select -coalesce(sum(settlement_cents), 0) as cents from whole_balance join holder on holder.id = holder_id
            where institution_id is null
        )
        select null::bigint as holder_id, array['position'] as ids, $4::bigint::text as expected,
            (held.cents + ahead.cents - behind.cents)::bigint::text as found, null::timestamptz as since
        from ahead cross join behind cross join held
        where held.cents + ahead.cents - behind.cents is distinct from $4
    """,
    of="rail",
    meaning=_WHAT_MAY_BE,
    todo="look at everything with --whole: the items that are missing on one side are found by it",
)
RAIL: Final = (ITEMS, SUM)


async def compare_items(
    connection: Connection, theirs: Sequence[SettledItem], since: datetime, until: datetime
) -> list[Finding]:
    """Return settlements of a span that one side lacks, or has differently; ``theirs`` reach a good while beyond the span."""
    rows = await connection.fetch(ITEMS.broken, _encode(theirs).decode(), since, until)
    return [read_finding(ITEMS.name, row) for row in rows]


async def sum_held(connection: Connection, theirs: Sequence[SettledItem], since: datetime, until: datetime) -> int:
    """Return the sum that the rail should hold, in cents; ``theirs`` begin a good while before ``since``."""
    # Compared with an empty balance, so that it is always reported.
    [row] = await connection.fetch(SUM.broken, _encode(theirs).decode(), since, until, None)
    return int(row["found"])
