"""Proof of approvals: a transfer that needed one leaves only with it."""

from typing import Final

from pixconnect.kernel.rules.proof import Rule, RulePart

APPROVALS: Final = (
    Rule(
        name="approved_transfer_has_its_yes",
        says="a transfer that needed an operator's approval leaves only with it, and a refused one does not settle",
        broken="""
            select awaited.holder_id, array['transfer ' || awaited.transfer_id] as ids,
                case
                    when transfer.status in ('CONFIRMED', 'RETURNED') or approval = 'given' then 'approved'
                    when approval = 'awaited' then 'nothing said'
                    else 'what waits'
                end as expected,
                concat_ws(
                    ' ', transfer.status, approval,
                    case when is_approved then 'approved by ' else 'refused by ' end || decided_by
                ) as found,
                awaited.since
            from pending_approval as awaited
            left join transfer on transfer.id = awaited.transfer_id and transfer.holder_id = awaited.holder_id
                and transfer.end_to_end_id = awaited.order_name
            left join open_order on open_order.name = awaited.order_name
            left join approval_answer as decision on decision.order_name = awaited.order_name
            where awaited.holder_id between $1 and $2 and (
                transfer.id is null or transfer.is_book or transfer.direction <> 'OUT'
                or open_order.name is not null and approval is null
                or approval = 'awaited' and decision.order_name is not null
                or approval = 'given' and is_approved is not true
                or transfer.status in ('CONFIRMED', 'RETURNED') and is_approved is not true
                    -- A yes may be what a database that was put back has forgotten.
                    and not exists (select from database_loss where noticed_at > awaited.since - interval '1 day')
            )
        """,
        meaning="an order left without approval, or a decision was written by hand",
        todo="`institution pause` if money left without approval; ask the operator that the audit names",
    ),
)
PARTS: Final = (
    RulePart(rule="notices_have_their_cause", selects="select holder_id, transfer_id, since from pending_approval"),
    RulePart(
        rule="what_was_decided_is_audited",
        selects="""
            select case when is_approved then 'operator transfer approve' else 'operator transfer refuse' end,
                'transfer ' || transfer_id, decided_by, decided_at, null, null
            from approval_answer join pending_approval using (order_name)
        """,
    ),
)
