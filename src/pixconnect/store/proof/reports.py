"""The rules of reports that wait for a person, and of what was refused: each against what it names."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain.proof.rule import Rule

_ASK: Final = (
    "look at the report and at what it names: `pixconnect report list --all`; what the rail settled is the truth"
)

# Whatever has a name of the network, or an institution's, here.
_NAMED: Final[LiteralString] = """
    exists (select from transfer where end_to_end_id = {name}) or exists (select from transfer where network_id = {name})
    or exists (select from refund where return_id = {name}) or exists (select from refund where network_id = {name})
    or exists (select from movement where item_id = {name})
"""

REPORTS: Final = (
    Rule(
        name="kept_report_is_as_it_came",
        says="a kept report is of the kind and of the name that its own text says",
        # Its text may hold what PostgreSQL's JSON does not: a report is kept whatever it says.
        broken="""
            select null::bigint as holder_id, array['report ' || id] as ids, format('%s %s', kind, name) as expected,
                left(report, 200) as found, first_seen_at as since
            from kept_report
            where kind <> 'unreadable' and (
                strpos(report, format('"type": "%s"', kind)) = 0
                or name ~ '^[a-zA-Z0-9]+$' and strpos(report, format('"%s"', name)) = 0
            ) or last_seen_at < first_seen_at
        """,
        of="installation",
        meaning="the report was written by hand: whoever closes it decides about another payment",
        todo=_ASK,
    ),
    Rule(
        name="kept_report_names_what_is_here",
        says="a report that contradicts an end, or comes again changed, is of something that is here",
        broken="""
            select null::bigint as holder_id, array['report ' || id] as ids, name as expected, null as found,
                first_seen_at as since
            from kept_report
            where (
                reason = 'contradiction' and kind in ('settled', 'rejected', 'taken', 'never_taken')
                or reason = 'changed_repeat' and kind in ('credit', 'return', 'movement')
            ) and not ("""
        + _NAMED.replace("{name}", "name")
        + ")",
        of="installation",
        meaning="the transfer, refund or movement was lost, or the report was written by hand",
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
)
