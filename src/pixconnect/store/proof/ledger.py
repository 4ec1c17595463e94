"""The rules of balances and entries."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.domain.proof.rule import Rule

_rule: Final = partial(
    Rule, todo="find out who wrote by hand, and since when by the runs before; compare with a backup of before that"
)

LEDGER: Final = (
    _rule(
        name="balance_is_sum",
        says="a balance is the sum of its entries",
        # Of changes the other rules are enough: they hold each part of a balance against what it is made of.
        is_of_whole_runs=True,
        broken="""
            select balance.holder_id, array['balance'] as ids,
                format('%s %s %s %s %s %s %s', available, reserved, blocked, deficit, settlement, funding, difference)
                    as expected,
                format('%s %s %s %s %s %s %s', available_cents, reserved_cents, blocked_cents, deficit_cents,
                    settlement_cents, funding_cents, difference_cents) as found,
                modified_at as since
            from whole_balance as balance
            left join (
                select holder_id,
                    sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)) as available,
                    sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)) as reserved,
                    sum(amount_cents * ((credit_account = 'blocked')::int - (debit_account = 'blocked')::int)) as blocked,
                    sum(amount_cents * ((debit_account = 'deficit')::int - (credit_account = 'deficit')::int)) as deficit,
                    sum(amount_cents * ((credit_account = 'settlement')::int - (debit_account = 'settlement')::int))
                        as settlement,
                    sum(amount_cents * ((credit_account = 'funding')::int - (debit_account = 'funding')::int)) as funding,
                    sum(amount_cents * ((credit_account = 'difference')::int - (debit_account = 'difference')::int))
                        as difference
                from ledger_entry where holder_id between $1 and $2 group by holder_id
            ) as posted using (holder_id)
            where balance.holder_id between $1 and $2 and (
                available_cents, reserved_cents, blocked_cents, deficit_cents, settlement_cents, funding_cents,
                difference_cents
            ) is distinct from (
                coalesce(available, 0), coalesce(reserved, 0), coalesce(blocked, 0), coalesce(deficit, 0),
                coalesce(settlement, 0), coalesce(funding, 0), coalesce(difference, 0)
            )
        """,
        meaning="an entry was lost, added or changed, or the balance was written by hand",
    ),
    _rule(
        # One look for each holder, where the sum of all entries takes a whole run.
        name="balance_follows_last_entry",
        says="a balance has the number, instant and running sum of its last entry",
        broken="""
            select balance.holder_id, array['balance'] as ids,
                format('%s %s %s', coalesce(number, 0), coalesce(running_balance_cents, 0), created_at) as expected,
                format('%s %s %s', last_number, funds_cents, last_entry_at) as found, modified_at as since
            from whole_balance as balance
            left join lateral (
                select number, running_balance_cents, created_at from ledger_entry
                where ledger_entry.holder_id = balance.holder_id and number is not null
                order by number desc limit 1
            ) as last on true
            where balance.holder_id between $1 and $2 and (
                last_number <> coalesce(number, 0)
                or funds_cents <> coalesce(running_balance_cents, 0)
                or funds_cents <> available_cents + reserved_cents + blocked_cents
                or number is not null and last_entry_at <> created_at
            )
        """,
        meaning="the last entries were lost or added by hand, or the balance was written by hand",
    ),
    _rule(
        name="entries_follow_each_other",
        says="numbers of a holder's entries have no gap, running balances add up, instants rise",
        broken="""
            with entry as (
                select holder_id, id, number, running_balance_cents, created_at,
                    case when credit_account in ('available', 'reserved', 'blocked') then amount_cents else -amount_cents end
                        as change,
                    lag(number) over following as number_before,
                    lag(running_balance_cents) over following as balance_before,
                    lag(created_at) over following as created_before
                from {numbered} as numbered
                window following as (partition by holder_id order by number)
            )
            select holder_id, array['entry ' || id] as ids,
                format('%s %s', coalesce(number_before, 0) + 1, coalesce(balance_before, 0) + change) as expected,
                format('%s %s', number, running_balance_cents) as found, created_at as since
            from entry
            where (
                number <> coalesce(number_before, 0) + 1 or running_balance_cents <> coalesce(balance_before, 0) + change
                or created_at <= created_before
            ) and (
                number_before is not null
                -- The first one that is looked at follows one that was looked at before.
                or not exists (
                    select from ledger_entry as earlier
                    where earlier.holder_id = entry.holder_id and earlier.number = entry.number - 1
                )
            )
        """,
        meaning="an entry was taken out, put in, changed or dated anew",
    ),
    _rule(
        name="holder_has_a_balance",
        says="each holder has a balance, and each balance its holder",
        broken="""
            select coalesce(holder.id, balance.holder_id) as holder_id, array['balance'] as ids, holder.id::text as expected,
                balance.holder_id::text as found, coalesce(holder.created_at, balance.modified_at) as since
            from (select * from holder where id between $1 and $2) as holder
            full join (select * from whole_balance where holder_id between $1 and $2) as balance
                on balance.holder_id = holder.id
            where holder.id is null or balance.holder_id is null
        """,
        meaning="a holder or a balance was lost or invented",
    ),
    _rule(
        # By the orders, which are few, and not by all transfers.
        name="reserved_is_under_way",
        says="what is reserved is what is under way",
        broken="""
            select holder_id, array['balance'] as ids, coalesce(amount, 0)::text as expected, reserved_cents::text as found,
                modified_at as since
            from (select * from whole_balance where holder_id between $1 and $2) as balance
            left join (
                select holder_id, sum(amount)::bigint as amount from (
                    select open_order.holder_id, amount_cents as amount from open_order
                    join transfer on transfer.id = resource_id and transfer.holder_id = open_order.holder_id
                        and end_to_end_id = name
                    where open_order.holder_id between $1 and $2 and transfer.status = 'PROCESSING'
                    union all
                    select open_order.holder_id, amount_cents from open_order
                    join refund on refund.id = resource_id and refund.holder_id = open_order.holder_id and return_id = name
                    where open_order.holder_id between $1 and $2 and refund.status = 'PROCESSING'
                ) as ordered
                group by holder_id
            ) as under_way using (holder_id)
            where reserved_cents <> coalesce(amount, 0)
        """,
        meaning="an order was lost, or it ended without its entry: money is held for nobody, or is free that is being sent",
        todo="look at the holder's orders: `pixconnect find --unresolved --holder-id ID`; let the rail's statement decide",
    ),
)
