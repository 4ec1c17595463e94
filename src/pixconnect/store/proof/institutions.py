"""The rules of what is asked of institutions: openings and changes of charges, steps of orders, what is given back."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.proof.rule import Rule

_ASK: Final = "ask the institution about it: `pixconnect institution ask`, and compare with its statement"

INSTITUTIONS: Final = (
    Rule(
        name="opening_has_its_charge",
        says="a charge at an institution was opened there, and what was opened is a charge",
        broken="""
            select coalesce(charge.holder_id, opened.holder_id) as holder_id,
                array['charge ' || coalesce(charge.id, charge_id)] as ids,
                format('%s %s %s', opened.txid, opened.institution_id, opened.external_id) as expected,
                format('%s %s %s', charge.txid, charge.institution_id, charge.external_id) as found,
                coalesce(charge.created_at, opened.created_at) as since
            from (select * from charge where holder_id between $1 and $2 and institution_id is not null) as charge
            full join (select * from charge_opening where holder_id between $1 and $2 and state = 'opened') as opened
                on charge_id = charge.id and opened.holder_id = charge.holder_id
            where (charge.txid, charge.institution_id, charge.external_id)
                is distinct from (opened.txid, opened.institution_id, opened.external_id)
        """,
        is_of_whole_runs=True,
        meaning="payers see a charge that is not known here, or a charge here leads nowhere",
        todo=_ASK,
    ),
    Rule(
        name="removal_has_removed",
        says="a charge whose removal was done at an institution is removed, or was paid all the same",
        broken="""
            select charge_change.holder_id, array['charge ' || charge_id, 'change ' || charge_change.id] as ids,
                removal as expected, charge.status as found, charge_change.created_at as since
            from (
                select * from charge_change where holder_id between $1 and $2 and kind = 'remove' and state = 'done'
            ) as charge_change
            left join charge on charge.id = charge_id and charge.holder_id = charge_change.holder_id
            where charge.status is null or charge.status not in (removal, 'APPROVED', 'RETURNED')
        """,
        meaning="the charge's state was written by hand: it is shown as one that can be paid",
        todo=_ASK,
    ),
    Rule(
        name="step_agrees_with_its_order",
        says="what was asked of an institution is what was ordered, and is over only with it",
        broken="""
            select step.holder_id, array['order ' || order_name] as ids,
                format('%s %s %s', refund.amount_cents, refund.original_end_to_end_id, refund.status) as expected,
                format('%s %s %s %s', step.amount_cents, step.original_end_to_end_id, state, outcome) as found,
                step.created_at as since
            from (select * from rail_step where holder_id between $1 and $2 and kind = 'refund') as step
            left join refund on refund.return_id = order_name and refund.flow = 'OUT' and refund.holder_id = step.holder_id
            left join open_order on open_order.name = order_name
            where refund.id is null or refund.amount_cents <> step.amount_cents
                or refund.original_end_to_end_id <> step.original_end_to_end_id
                or state <> 'closed' and open_order.name is null
                or outcome in ('never', 'refused') and refund.status = 'RETURNED'
        """,
        meaning="the order, or what is remembered of the calls about it, was lost or written by hand: it may be sent again",
        todo=_ASK,
    ),
    Rule(
        name="what_is_given_back_is_a_refund",
        says="what pays no charge and was given back has its refund, whole, and a refund by itself is of such a Pix",
        broken="""
            select give_back.holder_id, array['transfer ' || give_back.transfer_id] as ids, 'made' as expected, null as found,
                give_back.created_at as since
            from (select * from give_back where holder_id between $1 and $2 and state = 'made') as give_back
            where not exists (
                select from refund where refund.transfer_id = give_back.transfer_id and refund.holder_id = give_back.holder_id
                    and flow = 'OUT' and starts_with(external_id, 'auto:')
            )
            union all
            select refund.holder_id, array['refund ' || refund.id, 'transfer ' || refund.transfer_id],
                'auto:' || transfer.end_to_end_id, format('%s, charge %s', refund.external_id, charge_id), refund.created_at
            from {refunds} as refund
            join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
            where flow = 'OUT' and starts_with(refund.external_id, 'auto:')
                and (charge_id is not null or refund.external_id <> 'auto:' || transfer.end_to_end_id)
        """,
        meaning="a Pix that its payer should have back stayed, or one that has paid a charge went back",
        todo=_ASK,
    ),
    Rule(
        name="refunds_of_day_are_counted",
        says="what was accepted to be returned over an account in a day is what its refunds of that day make",
        broken="""
            select null::bigint as holder_id, array['account ' || name, 'day ' || day] as ids,
                coalesce(made.cents, 0)::text as expected, coalesce(counted.cents, 0)::text as found, null::timestamptz as since
            from (
                select institution_id, (refund.created_at at time zone 'America/Sao_Paulo')::date as day,
                    sum(refund.amount_cents)::bigint as cents
                from refund join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
                where flow = 'OUT' and made_by = 'service' and not refund.is_book and institution_id is not null
                    -- One that was refused at once has no entries, and took nothing of the day.
                    and exists (
                        select from ledger_entry as entry where entry.transfer_id = refund.transfer_id
                            and entry.holder_id = refund.holder_id and entry.refund_id = refund.id
                    )
                group by 1, 2
            ) as made
            full join refund_day as counted using (institution_id, day)
            join institution_account on institution_account.id = institution_id
            where coalesce(made.cents, 0) <> coalesce(counted.cents, 0)
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="more may leave the account today than two operators have allowed, or less",
        todo="pause the account until the day is over: `pixconnect institution pause NAME`",
    ),
    Rule(
        name="transfers_of_day_are_counted",
        says="what was accepted to be sent over an account in a day is what its transfers of that day make",
        broken="""
            select null::bigint as holder_id, array['account ' || name, 'day ' || day] as ids,
                coalesce(made.cents, 0)::text as expected, coalesce(counted.cents, 0)::text as found, null::timestamptz as since
            from (
                select institution_id, (created_at at time zone 'America/Sao_Paulo')::date as day,
                    sum(amount_cents)::bigint as cents
                from transfer where direction = 'OUT' and not is_book and institution_id is not null group by 1, 2
            ) as made
            full join transfer_day as counted using (institution_id, day)
            join institution_account on institution_account.id = institution_id
            where coalesce(made.cents, 0) <> coalesce(counted.cents, 0)
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="more may leave the account today than two operators have allowed, or less",
        todo="pause the account until the day is over: `pixconnect institution pause NAME`",
    ),
)
