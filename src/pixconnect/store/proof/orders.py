"""The rules of orders on their way, and of how transfers and refunds stand."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.domain.proof.rule import Rule

_rule: Final = partial(
    Rule, todo="look at it with `pixconnect find ID`, and let the rail's statement of its day decide"
)

# No rule here decides how an order ended: only the rail does.
ORDERS: Final = (
    _rule(
        name="under_way_has_order",
        says="whatever is under way over the rail or an account has its order there, and nothing else has one",
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
    _rule(
        name="approved_transfer_has_its_yes",
        says="what had to wait for an operator's yes leaves with one alone, and what was refused does not settle",
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
        meaning="an order left that nobody had approved, or a decision was written by hand",
        todo="`institution pause` if money left that nobody approved; ask the operator whom the audit names",
    ),
    _rule(
        name="transfer_is_as_confirmed",
        says="what was initiated and confirmed, or prepared, was sent as it was, by the holder whose it was",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id] as ids,
                concat_ws(' ', initiated.holder_id, initiated.end_to_end_id, prepared.amount_cents, prepared.initiation_type)
                    as expected,
                format('%s %s %s %s', transfer.holder_id, transfer.external_id, transfer.amount_cents,
                    transfer.initiation_type) as found,
                transfer.created_at as since
            from {transfers} as transfer
            left join initiated_transfer as initiated using (end_to_end_id)
            left join prepared_transfer as prepared
                on prepared.external_id = transfer.external_id and prepared.holder_id = transfer.holder_id
            where direction = 'OUT' and (
                initiated.holder_id is not null and (transfer.holder_id, transfer.external_id, transfer.initiation_type)
                    <> (initiated.holder_id, initiated.end_to_end_id, 'KEY')
                or (transfer.amount_cents, transfer.initiation_type) <> (prepared.amount_cents, prepared.initiation_type)
            )
        """,
        meaning="the transfer, or what was confirmed or prepared, was written by hand",
    ),
)
