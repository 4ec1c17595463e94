"""The rules of balances and entries, and of the facts behind entries.

Each fact has exactly the entries of its state, and each entry has its fact.
"""

from functools import partial
from typing import Final, LiteralString

from pixconnect.kernel.rules.proof import Rule

_rule: Final = partial(Rule, todo="find out who wrote by hand, and since when by earlier runs; compare with an earlier backup")

LEDGER: Final = (
    _rule(
        name="balance_is_sum",
        says="a balance is the sum of its entries",
        # For changes the other rules suffice: they compare each part of a balance with its components.
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
        # One look-up per holder, while the sum of all entries takes a whole run.
        name="balance_follows_last_entry",
        says="a balance has the number, running sum (as the sum of its parts too) and instant of its last entry",
        broken="""
            select balance.holder_id, array['balance'] as ids,
                format('%1$s %2$s %2$s %3$s', coalesce(number, 0), coalesce(running_balance_cents, 0), created_at) as expected,
                format('%s %s %s %s', last_number, funds_cents, available_cents + reserved_cents + blocked_cents, last_entry_at)
                    as found, modified_at as since
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
        meaning="an entry was removed, inserted, changed or redated",
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
        says="the reserved balance equals the pending orders",
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
        meaning="an order was lost, or it ended without its entry: money is held for no order, or is free while being sent",
        todo="look at the holder's orders: `pixconnect find --unresolved --holder-id ID`; the rail's statement decides",
    ),
)


_of_facts: Final = partial(
    Rule, todo="compare the fact with the rail's statement of its day and with a backup; nothing is mended by hand alone"
)

# The sources of entries, in the terms of `allowed_posting`; for a partly missing amount, both entries.
_FACTS: Final[LiteralString] = """
                select 'transfer' as kind, id, holder_id, direction, is_book, status, 'service' as made_by, amount_cents,
                    0::bigint as deficit_cents, null::bigint as entry_id, null::bigint as deficit_entry_id, created_at
                from {transfers} as transfer
                union all
                select 'refund', id, holder_id, flow, is_book, status, made_by, amount_cents, 0, null, null, created_at
                from {refunds} as refund
                union all
                select kind, id, holder_id, direction, false, status, 'service', amount_cents, deficit_cents, entry_id,
                    deficit_entry_id, created_at
                from (
                    select 'deposit' as kind, id, holder_id, 'IN' as direction, 'MADE' as status, amount_cents,
                        0 as deficit_cents, id as entry_id, null::bigint as deficit_entry_id, created_at
                    from deposit
                    union all
                    select 'movement', id, holder_id, direction, status, amount_cents, deficit_cents, entry_id,
                        deficit_entry_id, created_at
                    from movement where id is not null
                    union all
                    select 'adjustment', id, holder_id, direction, account, amount_cents, deficit_cents, entry_id,
                        deficit_entry_id, created_at
                    from adjustment
                    union all
                    select 'repayment', id, holder_id, 'OUT', 'MADE', amount_cents, 0, id, null, created_at from repayment
                    union all
                    select 'block_step', id, holder_id, case when kind in ('covered', 'held') then 'IN' else 'OUT' end, kind,
                        amount_cents, 0, id, null, created_at
                    from block_step
                ) as own
                where holder_id between $1 and $2
"""

POSTINGS: Final = (
    _of_facts(
        # A full join checks both ways at once: for a missing entry, and for an extra one.
        name="fact_has_its_entries",
        says="each fact has exactly the entries of its state, of its amount; in live mode none is a deposit of play money",
        broken=f"""
            with fact as ({_FACTS})
            select coalesce(wanted.holder_id, posted.holder_id) as holder_id,
                array[coalesce(wanted.kind, posted.kind) || ' ' || coalesce(wanted.id, cause_id), 'entry ' || posted.id] as ids,
                wanted.status || format(': %s to %s of %s', wanted.debit_account, wanted.credit_account, wanted.amount_cents)
                    as expected,
                case when posted.id is not null
                    then format('%s to %s of %s', posted.debit_account, posted.credit_account, posted.amount_cents)
                end as found,
                coalesce(posted.created_at, wanted.created_at) as since
            from (
                select kind, id, fact.holder_id, status, fact.created_at, debit_account, credit_account,
                    case debit_account when 'deficit' then deficit_cents else amount_cents - deficit_cents end as amount_cents,
                    case debit_account when 'deficit' then deficit_entry_id else entry_id end as entry_id
                from fact join allowed_posting as allowed using (kind, direction, is_book, status, made_by)
                where made_by = 'service' and (debit_account <> 'deficit' or deficit_cents > 0)
                    and (debit_account = 'deficit' or amount_cents > deficit_cents)
            ) as wanted
            full join (
                select fact.kind, entry.* from fact
                join ledger_entry as entry on entry.cause_kind::text = fact.kind and entry.cause_id = fact.id
                    and entry.holder_id = fact.holder_id
                where made_by = 'service'
            ) as posted on posted.kind = wanted.kind and posted.cause_id = wanted.id
                and posted.holder_id = wanted.holder_id
                and posted.debit_account = wanted.debit_account and posted.credit_account = wanted.credit_account
            where wanted.id is null or posted.id is null or posted.amount_cents <> wanted.amount_cents
                or posted.id <> wanted.entry_id or {{runs_on}} and (
                    wanted.kind = 'deposit'
                    or wanted.kind in ('transfer', 'refund') and posted.created_at < wanted.created_at
                )
        """,
        meaning="an entry was lost, invented or moved, or the fact's state or amount was written by hand",
    ),
    _of_facts(
        name="entry_has_its_fact",
        says="each entry has the cause that it names, of its holder, and is of a state that may have it",
        broken=f"""
            select entry.holder_id, array['entry ' || entry.id] as ids, 'a cause' as expected, null as found,
                entry.created_at as since
            from (select * from ledger_entry where holder_id between $1 and $2) as entry
            left join ({_FACTS}) as fact on fact.kind = cause_kind::text and fact.id = cause_id
                and fact.holder_id = entry.holder_id
            where fact.id is null
                or entry.id not in (coalesce(entry_id, deficit_entry_id), coalesce(deficit_entry_id, entry_id))
                or cause_kind = 'adjustment' and cause_state::text <> status
                or not exists (
                    select from allowed_posting as allowed
                    where allowed.kind = cause_kind::text and allowed.status = cause_state::text
                        and allowed.debit_account = entry.debit_account and allowed.credit_account = entry.credit_account
                )
        """,
        # A run over changes begins at changed facts, and an invented entry has none.
        is_of_whole_runs=True,
        meaning="the entry was invented, or its source was lost",
    ),
    _of_facts(
        name="repayment_is_of_what_came",
        says="each repayment was taken from the money that had come before it",
        broken="""
            select repayment.holder_id, array['repayment ' || repayment.id] as ids, repayment.amount_cents::text as expected,
                source.amount_cents::text as found, repayment.created_at as since
            from (select * from repayment where holder_id between $1 and $2) as repayment
            left join ledger_entry as entry using (id, holder_id)
            left join ledger_entry as source on source.id = source_entry_id and source.holder_id = repayment.holder_id
            where source.credit_account is distinct from 'available' or source.amount_cents < repayment.amount_cents
                or source.created_at > entry.created_at
        """,
        meaning="the entry or the repayment was written by hand",
    ),
    _of_facts(
        name="deficit_is_lacked",
        says="the deficit equals the missing sums that were not repaid",
        # For changes the rules of its components suffice.
        is_of_whole_runs=True,
        broken="""
            select holder_id, array['balance'] as ids, (coalesce(lacked, 0) - coalesce(repaid, 0))::text as expected,
                deficit_cents::text as found, modified_at as since
            from (select * from balance where holder_id between $1 and $2) as balance
            left join (
                select holder_id, sum(lacked_cents) as lacked from (
                    select holder_id, deficit_cents as lacked_cents from movement where holder_id between $1 and $2
                    union all
                    -- The amount of the institution's own returns is in their entries alone.
                    select refund.holder_id, entry.amount_cents from refund
                    join ledger_entry as entry on entry.cause_kind = 'refund' and entry.cause_id = refund.id
                        and entry.holder_id = refund.holder_id
                    where refund.holder_id between $1 and $2 and made_by = 'institution' and debit_account = 'deficit'
                    union all
                    select holder_id, deficit_cents from adjustment where holder_id between $1 and $2
                ) as each
                group by holder_id
            ) as taken using (holder_id)
            left join (
                select holder_id, sum(amount_cents) as repaid from repayment
                where holder_id between $1 and $2 group by holder_id
            ) as given using (holder_id)
            where deficit_cents <> coalesce(lacked, 0) - coalesce(repaid, 0)
        """,
        meaning="a movement or a repayment was lost or written by hand",
    ),
    _of_facts(
        # By the facts alone and no entry: an error in both entry and balance shows here.
        name="settlement_is_what_moved",
        says="the settled sum equals the money moved over the rail, by book, and at the institution",
        broken="""
            select holder_id, array['balance'] as ids, coalesce(sum(moved.amount), 0)::bigint::text as expected,
                settlement_cents::text as found, balance.modified_at as since
            from whole_balance as balance
            left join (
                select holder_id, case direction when 'OUT' then amount_cents else -amount_cents end as amount
                from transfer where holder_id between $1 and $2 and settled_at is not null
                union all
                select holder_id, case flow when 'OUT' then amount_cents else -amount_cents end
                from refund where holder_id between $1 and $2 and status = 'RETURNED'
                union all
                select holder_id, case direction when 'OUT' then amount_cents else -amount_cents end
                from movement where holder_id between $1 and $2 and status = 'POSTED'
                union all
                select holder_id, case direction when 'OUT' then amount_cents else -amount_cents end
                from adjustment where holder_id between $1 and $2 and account = 'settlement'
                union all
                select holder_id, case kind when 'held' then -amount_cents else amount_cents end
                from block_step where holder_id between $1 and $2 and kind in ('held', 'hold_ended')
            ) as moved using (holder_id)
            where balance.holder_id between $1 and $2
            group by holder_id, settlement_cents, balance.modified_at
            having settlement_cents <> coalesce(sum(moved.amount), 0)
        """,
        is_of_whole_runs=True,
        meaning="a transfer, refund or movement was lost or invented, and its entry was not, or the other way round",
    ),
)
