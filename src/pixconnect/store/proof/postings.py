"""The rules of what entries come from: each fact has exactly the entries of its state, and each entry has its fact."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.domain.proof.rule import Rule

_rule: Final = partial(
    Rule,
    todo="compare the fact with the rail's statement of its day and with a backup; nothing is mended by hand alone",
)

POSTINGS: Final = (
    _rule(
        # A full join asks both ways at once: for an entry that is missing, and for one that is too many.
        name="transfer_has_its_entries",
        says="a transfer has exactly the entries of its state, of its amount",
        broken="""
            select coalesce(wanted.holder_id, posted.holder_id) as holder_id,
                array['transfer ' || coalesce(wanted.id, posted.cause_id), 'entry ' || posted.id] as ids,
                wanted.status || format(': %s to %s of %s', wanted.debit_account, wanted.credit_account, wanted.amount_cents)
                    as expected,
                case when posted.id is not null
                    then format('%s to %s of %s', posted.debit_account, posted.credit_account, posted.amount_cents)
                end as found,
                coalesce(posted.created_at, wanted.modified_at) as since
            from (
                select transfer.id, transfer.holder_id, transfer.status, transfer.amount_cents, transfer.modified_at,
                    transfer.created_at, debit_account, credit_account
                from {transfers} as transfer
                join allowed_posting as allowed on allowed.kind = 'transfer' and allowed.direction = transfer.direction
                    and allowed.is_book = transfer.is_book and allowed.status = transfer.status
            ) as wanted
            full join (
                select entry.* from {transfers} as transfer
                join ledger_entry as entry on entry.cause_id = transfer.id and entry.holder_id = transfer.holder_id
                    and entry.cause_kind = 'transfer'
            ) as posted on posted.cause_id = wanted.id and posted.holder_id = wanted.holder_id
                and posted.debit_account = wanted.debit_account and posted.credit_account = wanted.credit_account
            where wanted.id is null or posted.id is null or posted.amount_cents <> wanted.amount_cents
                or posted.created_at < wanted.created_at and {runs_on}
        """,
        meaning="an entry was lost, invented or moved, or the transfer's state or amount was written by hand",
    ),
    _rule(
        # Of those that we made: one that the institution made took what was there, and has the next rule.
        name="refund_has_its_entries",
        says="a refund has exactly the entries of its state, of its amount",
        broken="""
            select coalesce(wanted.holder_id, posted.holder_id) as holder_id,
                array['refund ' || coalesce(wanted.id, posted.cause_id), 'entry ' || posted.id] as ids,
                wanted.status || format(': %s to %s of %s', wanted.debit_account, wanted.credit_account, wanted.amount_cents)
                    as expected,
                case when posted.id is not null
                    then format('%s to %s of %s', posted.debit_account, posted.credit_account, posted.amount_cents)
                end as found,
                coalesce(posted.created_at, wanted.modified_at) as since
            from (
                select refund.id, refund.holder_id, refund.status, refund.amount_cents, refund.modified_at,
                    refund.created_at, debit_account, credit_account
                from {refunds} as refund
                join allowed_posting as allowed on allowed.kind = 'refund' and allowed.direction = refund.flow
                    and allowed.is_book = refund.is_book and allowed.status = refund.status and allowed.made_by = 'service'
                where refund.made_by = 'service'
            ) as wanted
            full join (
                select entry.* from {refunds} as refund
                join ledger_entry as entry on entry.cause_id = refund.id and entry.holder_id = refund.holder_id
                    and entry.cause_kind = 'refund'
                where refund.made_by = 'service'
            ) as posted on posted.cause_id = wanted.id and posted.holder_id = wanted.holder_id
                and posted.debit_account = wanted.debit_account and posted.credit_account = wanted.credit_account
            where wanted.id is null or posted.id is null or posted.amount_cents <> wanted.amount_cents
                or posted.created_at < wanted.created_at and {runs_on}
        """,
        meaning="an entry was lost, invented or moved, or the refund's state or amount was written by hand",
    ),
    _rule(
        # It was taken of what was available, and the rest is owed: in parts, of which only the sum is known.
        name="return_made_there_has_its_entries",
        says="a return that the institution made has taken its amount at once",
        broken="""
            select refund.holder_id, array['refund ' || refund.id] as ids, refund.amount_cents::text as expected,
                taken::text as found, refund.created_at as since
            from {refunds} as refund
            cross join lateral (
                select coalesce(sum(entry.amount_cents), 0) as taken, bool_or(
                    entry.credit_account <> 'settlement' or entry.debit_account not in ('available', 'deficit')
                ) as is_otherwise
                from ledger_entry as entry
                where entry.cause_kind = 'refund' and entry.cause_id = refund.id and entry.holder_id = refund.holder_id
            ) as posted
            where made_by = 'institution' and (taken <> refund.amount_cents or is_otherwise)
        """,
        meaning="an entry of it was lost, invented or changed, or the refund was written by hand",
    ),
    _rule(
        name="entry_has_its_fact",
        says="each entry has the cause that it names, of its holder",
        broken="""
            select entry.holder_id, array['entry ' || entry.id] as ids, 'a cause' as expected, null as found,
                entry.created_at as since
            from (select * from ledger_entry where holder_id between $1 and $2) as entry
            where not exists (
                select from allowed_posting as allowed
                where allowed.kind = cause_kind::text and allowed.status = cause_state::text
                    and allowed.debit_account = entry.debit_account and allowed.credit_account = entry.credit_account
            ) or not case cause_kind
                when 'transfer' then exists (
                    select from transfer where transfer.id = cause_id and transfer.holder_id = entry.holder_id
                )
                when 'refund' then exists (
                    select from refund where refund.id = cause_id and refund.holder_id = entry.holder_id
                )
                when 'deposit' then cause_id = entry.id and exists (
                    select from deposit where deposit.id = cause_id and deposit.holder_id = entry.holder_id
                        and deposit.amount_cents = entry.amount_cents
                )
                when 'movement' then exists (
                    select from movement where movement.id = cause_id and movement.holder_id = entry.holder_id
                        and entry.id in (entry_id, deficit_entry_id)
                )
                when 'repayment' then cause_id = entry.id and exists (
                    select from repayment where repayment.id = cause_id and repayment.holder_id = entry.holder_id
                        and repayment.amount_cents = entry.amount_cents
                )
                when 'adjustment' then exists (
                    select from adjustment where adjustment.id = cause_id and adjustment.holder_id = entry.holder_id
                        and account = cause_state::text and entry.id in (entry_id, deficit_entry_id)
                )
                when 'block_step' then cause_id = entry.id and exists (
                    select from block_step as step where step.id = cause_id and step.holder_id = entry.holder_id
                )
                else false
            end
        """,
        # A run over changes begins at facts that have changed, and an entry that was invented has none.
        is_of_whole_runs=True,
        meaning="the entry was invented, or what it came from was lost",
    ),
    _rule(
        name="deposit_has_its_entry",
        says="each deposit of play money has its entry, and there is none in live mode",
        broken="""
            select deposit.holder_id, array['deposit ' || deposit.id] as ids, deposit.amount_cents::text as expected,
                entry.amount_cents::text as found, deposit.created_at as since
            from (select * from deposit where holder_id between $1 and $2) as deposit
            left join ledger_entry as entry using (id, holder_id)
            where (entry.debit_account, entry.credit_account, entry.amount_cents)
                is distinct from ('funding'::ledger_account, 'available'::ledger_account, deposit.amount_cents)
                or exists (select from installation where mode = 'live')
        """,
        meaning="the entry or the deposit was written by hand",
    ),
    _rule(
        # Two at most: of what was available, and of what was lacking. A check keeps one that was refused from having any.
        name="movement_has_its_entries",
        says="each movement that was posted has exactly its entries",
        broken="""
            select moved.holder_id, array['movement ' || item_id] as ids,
                format('%s to %s of %s', moved.debit_account, moved.credit_account, moved.amount_cents) as expected,
                case when entry.id is not null
                    then format('%s to %s of %s', entry.debit_account, entry.credit_account, entry.amount_cents)
                end as found,
                moved.created_at as since
            from (
                select item_id, holder_id, entry_id as id, amount_cents - deficit_cents as amount_cents, created_at,
                    case direction when 'IN' then 'settlement' else 'available' end::ledger_account as debit_account,
                    case direction when 'IN' then 'available' else 'settlement' end::ledger_account as credit_account
                from movement
                where holder_id between $1 and $2 and status = 'POSTED' and amount_cents > deficit_cents
                union all
                select item_id, holder_id, deficit_entry_id, deficit_cents, created_at, 'deficit', 'settlement'
                from movement where holder_id between $1 and $2 and deficit_cents > 0
            ) as moved
            left join ledger_entry as entry using (id, holder_id)
            where (entry.debit_account, entry.credit_account, entry.amount_cents)
                is distinct from (moved.debit_account, moved.credit_account, moved.amount_cents)
                or entry.cause_kind <> 'movement'
        """,
        meaning="an entry of it was lost or changed, or the movement was written by hand",
    ),
    _rule(
        name="repayment_has_its_entry",
        says="each repayment has its entry, and was taken of what had come before it",
        broken="""
            select repayment.holder_id, array['repayment ' || repayment.id] as ids, repayment.amount_cents::text as expected,
                entry.amount_cents::text as found, repayment.created_at as since
            from (select * from repayment where holder_id between $1 and $2) as repayment
            left join ledger_entry as entry using (id, holder_id)
            left join ledger_entry as source on source.id = source_entry_id and source.holder_id = repayment.holder_id
            where (entry.debit_account, entry.credit_account, entry.amount_cents)
                is distinct from ('available'::ledger_account, 'deficit'::ledger_account, repayment.amount_cents)
                or source.credit_account is distinct from 'available' or source.amount_cents < repayment.amount_cents
                or source.created_at > entry.created_at
        """,
        meaning="the entry or the repayment was written by hand",
    ),
    _rule(
        name="deficit_is_lacked",
        says="what is owed is what was lacking and was not repaid",
        # Of changes the rules of what it is made of are enough.
        is_of_whole_runs=True,
        broken="""
            select holder_id, array['balance'] as ids, (coalesce(lacked, 0) - coalesce(repaid, 0))::text as expected,
                deficit_cents::text as found, modified_at as since
            from (select * from balance where holder_id between $1 and $2) as balance
            left join (
                select holder_id, sum(lacked_cents) as lacked from (
                    select holder_id, deficit_cents as lacked_cents from movement where holder_id between $1 and $2
                    union all
                    -- Returns that the institution made say how much by their entries alone.
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
    _rule(
        # By the facts alone and no entry: a mistake that is in entry and balance alike shows here.
        name="settlement_is_what_moved",
        says="what is settled is what went over the rail, by book, and at the institution",
        broken="""
            select holder_id, array['balance'] as ids, coalesce(sum(moved.amount), 0)::bigint::text as expected,
                settlement_cents::text as found, balance.modified_at as since
            from balance
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
                from block_step where holder_id between $1 and $2 and kind in ('held', 'let_go')
            ) as moved using (holder_id)
            where balance.holder_id between $1 and $2
            group by holder_id, settlement_cents, balance.modified_at
            having settlement_cents <> coalesce(sum(moved.amount), 0)
        """,
        is_of_whole_runs=True,
        meaning="a transfer, refund or movement was lost or invented, and its entry was not, or the other way round",
    ),
)
