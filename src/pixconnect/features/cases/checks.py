"""Proof rules of adjusting entries, which are compared with their entries and their case; and operators' decisions."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.kernel.rules.proof import Rule, RulePart

_rule: Final = partial(
    Rule, todo="compare with the audit, which names both operators: `pixconnect audit list`; nothing is mended by hand alone"
)

ADJUSTMENTS: Final = (
    # Correct books may break it for a while: this keeps an agreed adjustment visible.
    _rule(
        name="difference_is_nothing",
        says="nothing is adjusted that is neither undone nor written off",
        broken="""
            select holder_id, array['balance'] as ids, '0' as expected, difference_cents::text as found, modified_at as since
            from balance where holder_id between $1 and $2 and difference_cents <> 0
        """,
        meaning="two operators have adjusted the books for a case, and the missing fact has not come",
        todo="look at it: `pixconnect case list --all`; undo it once the missing fact is recorded, or write it off",
    ),
    # An open case may have changed its amount since; the worker reopens it, and an operator reverses the entry.
    _rule(
        name="adjustment_is_within_its_case",
        says="the adjustments for a case that has ended are within its amount and sign",
        broken="""
            select null::bigint as holder_id, array['case ' || kept_case.id] as ids, kept_case.amount_cents::text as expected,
                adjusted_cents::text as found, last_at as since
            from kept_case
            join (
                select case_id, max(created_at) as last_at,
                    coalesce(sum(case direction when 'IN' then amount_cents else -amount_cents end)
                        filter (where account = 'available'), 0)::bigint as adjusted_cents
                from adjustment group by case_id
            ) as made on made.case_id = kept_case.id
            where kind <> 'day' or ended_at is not null and (
                amount_cents is null or adjusted_cents not between least(amount_cents, 0) and greatest(amount_cents, 0)
            )
        """,
        of="installation",
        meaning="the adjustment or the case was written by hand",
    ),
    _rule(
        name="order_ended_by_its_case",
        says="an order that ended by a case did so by two operators and by evidence, and stands as they claim",
        broken="""
            select coalesce(ending.holder_id, step.holder_id) as holder_id,
                array['order ' || coalesce(ending.order_name, step.order_name, 'of case ' || ended.id)] as ids,
                case when ending.order_name is not null then format('%s, by %s and %s, %s', ending.claim, ending.proposed_by,
                    ending.confirmed_by, ending.evidence_digest) else 'two operators and evidence' end as expected,
                concat_ws(', ', coalesce(transfer.status, refund.status), step.outcome, ended.ended_as) as found,
                coalesce(ending.ended_at, ended.ended_at, step.created_at) as since
            from case_ending as ending
            full join (select * from rail_step where outcome = 'decided') as step on step.order_name = ending.order_name
            full join (select * from kept_case where ended_as = 'decided') as ended on ended.id = ending.case_id
            left join transfer on ending.kind = 'order' and transfer.id = ending.resource_id
                and transfer.holder_id = ending.holder_id
            left join refund on ending.kind = 'refund' and refund.id = ending.resource_id
                and refund.holder_id = ending.holder_id
            where ending.order_name is null or step.order_name is null
                or coalesce(transfer.status, refund.status)
                    is distinct from case when ending.claim = 'never' then 'ERROR'
                        when ending.kind = 'order' then 'CONFIRMED' else 'RETURNED' end
                or coalesce(transfer.amount_cents, refund.amount_cents) <> ending.amount_cents
                or not exists (
                    select from proposal
                    where proposal.institution_id = ending.institution_id and act = 'decide'
                        and proposal.proposed_by = ending.proposed_by and proposal.confirmed_by = ending.confirmed_by
                        and proposal.contents ->> 'order' = ending.order_name and proposal.contents ->> 'claim' = ending.claim
                        and proposal.contents ->> 'evidence_sha256' = ending.evidence_digest
                )
                or not exists (
                    select from kept_case where id = ending.case_id and kept_case.kind = 'order' and name = ending.order_name
                )
        """,
        of="installation",
        meaning="money was given back or taken in another operator's name; or a row was lost",
    ),
)
PARTS: Final = (
    RulePart(rule="event_agrees_with_its_fact", selects="select 'adjustment', id, holder_id from adjustment"),
    RulePart(
        rule="what_was_decided_is_audited",
        selects="""
            select 'case close', 'case ' || id, ended_by, ended_at, id, null from kept_case where ended_as = 'closed'
            union all
            select 'case adjust', 'case ' || case_id, proposed_by, created_at, null, null from adjustment
            union all
            select 'proposal confirm', 'institution ' || institution_account.name, confirmed_by, adjustment.created_at, null,
                'adjustment ' || adjustment.id
            from adjustment join kept_case on kept_case.id = case_id
            join institution_account on institution_account.id = institution_id
            union all
            select 'case close', 'case ' || case_id, proposed_by, ended_at, null, null from case_ending
            union all
            select 'proposal confirm', 'institution ' || institution_account.name, confirmed_by, ended_at, null,
                'order ' || order_name
            from case_ending join institution_account on institution_account.id = institution_id
            union all
            select 'case forget', 'institution ' || institution_account.name, revoked_by, revoked_at, null,
                'pattern ' || answer_pattern.id
            from answer_pattern join institution_account on institution_account.id = institution_id
            where revoked_at is not null
            union all
            select 'case answer', 'institution ' || institution_account.name, 'pattern ' || pattern_id, answered_at, null,
                'line ' || item_id
            from line_answer join institution_account on institution_account.id = institution_id
            where pattern_id is not null
        """,
    ),
)
