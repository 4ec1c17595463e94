"""Proof rules of requests to institutions: charges opened and changed, steps of orders, returns."""

from __future__ import annotations

from functools import partial
from typing import Final, LiteralString

from pixconnect.kernel.rules.proof import Rule

_rule: Final = partial(Rule, todo="ask the institution about it: `pixconnect institution ask`, and compare with its statement")
# As made by `name_payee` of features/institutions/rules/rail_memory.py.
_PAYEE: Final[LiteralString] = """
                    case initiation_type when 'MANUAL' then concat_ws('/', counterparty ->> 'ispb',
                            counterparty ->> 'branch', counterparty ->> 'account_number')
                        else coalesce(counterparty ->> 'key', '')
                    end"""
# Names at institutions are HMAC-SHA-256, which PostgreSQL lacks: of the key, as long as a block, it takes both paddings.
_PADDED: Final[LiteralString] = """
                select institution_id,
                    decode(string_agg(lpad(to_hex(get_byte(block, place) # 54), 2, '0'), '' order by place), 'hex')
                        as inner_key,
                    decode(string_agg(lpad(to_hex(get_byte(block, place) # 92), 2, '0'), '' order by place), 'hex')
                        as outer_key
                from institution_allowance
                cross join lateral (
                    select naming_key || decode(repeat('00', 64 - length(naming_key)), 'hex') as block
                ) as blocked
                cross join generate_series(0, 63) as place
                group by institution_id
            """

INSTITUTIONS: Final = (
    _rule(
        name="opening_has_its_charge",
        says="a charge at an institution was opened there by its code, and each opening is a charge",
        broken="""
            select coalesce(charge.holder_id, opened.holder_id) as holder_id,
                array['charge ' || coalesce(charge.id, charge_id)] as ids,
                format('%s %s %s %s', opened.txid, opened.institution_id, opened.external_id, code_digest) as expected,
                format('%s %s %s %s', charge.txid, charge.institution_id, charge.external_id, own_digest) as found,
                coalesce(charge.created_at, opened.created_at) as since
            from (select * from charge where holder_id between $1 and $2 and institution_id is not null) as charge
            full join (select * from charge_opening where holder_id between $1 and $2 and state = 'opened') as opened
                on charge_id = charge.id and opened.holder_id = charge.holder_id
            cross join lateral (select sha256(convert_to(br_code, 'UTF8')) as own_digest) as own
            where (charge.txid, charge.institution_id, charge.external_id, own_digest)
                is distinct from (opened.txid, opened.institution_id, opened.external_id, code_digest)
        """,
        is_of_whole_runs=True,
        meaning="payers see a charge that does not exist here, or a charge here leads nowhere or to another payee",
    ),
    _rule(
        name="what_is_to_be_asked_is_as_wanted",
        says="pending openings, changes and refunds at an institution have the contents requested here",
        broken="""
            select holder_id, array['charge ' || charge_id] as ids, encode(wanted_digest, 'hex') as expected,
                encode(sha256(convert_to(wanted, 'UTF8')), 'hex') as found, created_at as since
            from (
                select holder_id, charge_id, wanted, wanted_digest, created_at from charge_opening where state = 'opening'
                union all
                select holder_id, charge_id, contents, wanted_digest, created_at from charge_change where state = 'asked'
            ) as asked
            where holder_id between $1 and $2 and wanted_digest is distinct from sha256(convert_to(wanted, 'UTF8'))
            union all
            -- It was noted with the payment, which paid nothing here.
            select given.holder_id, array['transfer ' || given.transfer_id], 'a Pix that paid no charge',
                concat_ws(' ', transfer.direction, transfer.status, 'charge ' || charge_id), given.created_at
            from give_back as given
            left join transfer on transfer.id = given.transfer_id and transfer.holder_id = given.holder_id
                and direction = 'IN' and settled_at is not null and charge_id is null
                and transfer.institution_id = given.institution_id
                and given.created_at in (transfer.created_at, transfer.settled_at)
            where given.holder_id between $1 and $2 and transfer.id is null
        """,
        meaning="the institution will get another request: another amount is charged, or the paid sum goes back",
        todo="pause the account (`pixconnect institution pause NAME`) before a worker asks, and compare with a backup",
    ),
    _rule(
        name="removal_has_removed",
        says="a charge removed at an institution is removed here, or was paid all the same",
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
    ),
    _rule(
        name="step_agrees_with_its_order",
        says="a request to an institution matches its order, account and name, and ends only with it",
        broken="""
            with ordered as (
                select 'refund' as kind, return_id as name, refund.holder_id, refund.amount_cents,
                    transfer.end_to_end_id as about, institution_id, refund.status, refund.settled_at, refund.handed_at,
                    coalesce(refund.external_id, return_id) as asked_as,
                    refund.made_by = 'service' and not refund.is_book and institution_id is not null as is_there
                from {refunds} as refund
                join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
                where flow = 'OUT'
                union all
                select 'order', end_to_end_id, holder_id, amount_cents, """
        + _PAYEE
        + """, institution_id, status, settled_at, handed_at, coalesce(external_id, end_to_end_id),
                    not is_book and institution_id is not null
                from {transfers} as transfer where direction = 'OUT'
            ),
            padded as ("""
        + _PADDED
        + """)
            select ordered.holder_id, array['order ' || ordered.name] as ids,
                format('%s %s %s at %s: %s %s', ordered.kind, ordered.amount_cents, ordered.about, ordered.institution_id,
                    ordered.status, named.name_there) as expected,
                case when step.order_name is not null
                    then format('%s %s %s at %s: %s %s %s', step.kind, step.amount_cents,
                        coalesce(step.original_end_to_end_id, step.payee), step.institution_id, step.state, step.outcome,
                        step.name_there)
                end as found,
                coalesce(step.created_at, ordered.handed_at, ordered.settled_at) as since
            from ordered
            left join rail_step as step on step.order_name = ordered.name
            left join open_order on open_order.name = ordered.name
            left join padded on padded.institution_id = ordered.institution_id
            join holder_family on holder_family.holder_id = ordered.holder_id
            cross join lateral (
                select left(encode(sha256(outer_key || sha256(inner_key || convert_to(concat_ws('|', ordered.institution_id,
                    ordered.kind, first_id, ordered.asked_as), 'UTF8'))), 'hex'), 32) as name_there
            ) as named
            where case when step.order_name is null
                -- Between the mark and the call there is none yet: its worker may have ended then.
                then ordered.is_there and (
                    ordered.settled_at is not null or ordered.status <> 'PROCESSING' and ordered.handed_at is not null
                )
                else not ordered.is_there
                    or (step.kind, step.holder_id, step.amount_cents, step.institution_id)
                        <> (ordered.kind, ordered.holder_id, ordered.amount_cents, ordered.institution_id)
                    or coalesce(step.original_end_to_end_id, step.payee) <> ordered.about
                    or step.name_there is distinct from named.name_there
                        and not (step.name_there is null and (step.state = 'new' or step.outcome = 'never'))
                    or state <> 'closed' and open_order.name is null
                    or outcome in ('never', 'refused') and ordered.settled_at is not null
                    or outcome = 'never' and called_at is not null and not only_asked
            end
        """,
        meaning="the order, or the record of its calls, was lost or written by hand: it may be sent again",
    ),
    _rule(
        name="step_has_its_order",
        says="each request to an institution is an order or refund of its holder",
        broken="""
            select step.holder_id, array['order ' || order_name] as ids, step.kind as expected, null as found,
                step.created_at as since
            from (select * from rail_step where holder_id between $1 and $2) as step
            where case kind
                when 'refund' then not exists (
                    select from refund where return_id = order_name and flow = 'OUT' and refund.holder_id = step.holder_id
                )
                else not exists (
                    select from transfer where end_to_end_id = order_name and direction = 'OUT'
                        and transfer.holder_id = step.holder_id
                )
            end
        """,
        is_of_whole_runs=True,
        meaning="the order was lost, or the request under its name is another holder's",
    ),
    _rule(
        name="return_made_there_has_what_belongs_to_it",
        says="a return made by the institution took its amount at once, and alone has the name of its request there",
        # It took the available money, and the rest became a deficit: only the sum of both parts is known.
        broken="""
            select refund.holder_id, array['refund ' || refund.id] as ids,
                case made_by when 'institution'
                    then format('%s of transfer %s, %s', refund.amount_cents, refund.transfer_id, external_id) end as expected,
                concat_ws(', ', taken_cents, 'transfer ' || named.transfer_id, asked_as) as found, refund.created_at as since
            from {refunds} as refund
            left join return_name as named on named.refund_id = refund.id and named.holder_id = refund.holder_id
            left join lateral (
                select coalesce(sum(entry.amount_cents), 0) as taken_cents, coalesce(bool_or(
                    entry.credit_account <> 'settlement' or entry.debit_account not in ('available', 'deficit')
                ), false) as is_otherwise
                from ledger_entry as entry
                where entry.cause_kind = 'refund' and entry.cause_id = refund.id and entry.holder_id = refund.holder_id
            ) as posted on made_by = 'institution'
            where (made_by = 'institution') <> (named.refund_id is not null) or named.transfer_id <> refund.transfer_id
                -- If no list reported the network's name, the service derives one from this.
                or starts_with(external_id, 'theirs:' || original_end_to_end_id || ':')
                    and external_id <> 'theirs:' || original_end_to_end_id || ':' || asked_as
                or taken_cents <> refund.amount_cents or is_otherwise
        """,
        meaning="an entry of it was lost or changed, or its name: the same return, reported again, is recorded twice",
    ),
    _rule(
        name="return_name_has_its_refund",
        says="each request name of a return belongs to a recorded return",
        broken="""
            select named.holder_id, array['refund ' || refund_id, 'name ' || asked_as] as ids, 'a return' as expected,
                null as found, null::timestamptz as since
            from (select * from return_name where holder_id between $1 and $2) as named
            where not exists (
                select from refund where refund.id = refund_id and refund.holder_id = named.holder_id
            )
        """,
        is_of_whole_runs=True,
        meaning="a name was invented, or its return was lost: a return of that name is taken for one that is known",
    ),
    _rule(
        name="money_lies_on_one_account",
        says="all of a holder's movements and blocks, and its payees by book, are of the account that holds its money",
        broken="""
            with concerned as (
                select id as holder_id, institution_id from holder where id between $1 and $2 and (
                    institution_id is not null
                    or id in (select holder_id from transfer where institution_id is not null and holder_id between $1 and $2)
                )
            ),
            found as (
                select entry.holder_id, 'entry ' || entry.id as id, entry.created_at, concerned.institution_id as lies_on,
                    transfer.institution_id as on_account
                from concerned
                join ledger_entry as entry on entry.holder_id = concerned.holder_id
                left join refund on refund.id = case cause_kind when 'refund' then cause_id end
                    and refund.holder_id = entry.holder_id
                join transfer on transfer.id = case cause_kind when 'transfer' then cause_id else refund.transfer_id end
                    and transfer.holder_id = entry.holder_id and not transfer.is_book
                where number is not null or debit_account = 'deficit'
                union all
                select movement.holder_id, 'entry ' || coalesce(entry_id, deficit_entry_id), movement.created_at,
                    concerned.institution_id, movement.institution_id
                from concerned join movement on movement.holder_id = concerned.holder_id
                where coalesce(entry_id, deficit_entry_id) is not null
                union all
                select block.holder_id, 'block ' || block.id, block.created_at, concerned.institution_id, block.institution_id
                from concerned join block on block.holder_id = concerned.holder_id
                union all
                select sent.holder_id, 'transfer ' || sent.id, sent.created_at, concerned.institution_id, payee.institution_id
                from concerned
                join transfer as sent on sent.holder_id = concerned.holder_id and sent.is_book
                join transfer as other on other.end_to_end_id = sent.end_to_end_id and other.direction <> sent.direction
                    and other.is_book
                join holder as payee on payee.id = other.holder_id
            )
            select holder_id, array[id] as ids, format('account %s', coalesce(lies_on, 0)) as expected,
                format('account %s', coalesce(on_account, 0)) as found, created_at as since
            from found where on_account is distinct from lies_on
        """,
        is_of_whole_runs=True,
        meaning="the account of a transfer or movement, or of its holder, was written by hand: both accounts' sums are wrong",
    ),
    _rule(
        name="what_is_given_back_is_a_refund",
        says=(
            "a payment without a charge that was given back has its refund, whole, and each automatic refund is of such a Pix"
        ),
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
    ),
    _rule(
        name="reading_is_not_ahead",
        says="no reading of an account is in the future, which would hide payments until then",
        broken="""
            select null::bigint as holder_id, array['account ' || name, 'pace ' || pace] as ids, now_at::text as expected,
                greatest(began_at, ended_at)::text as found, now_at as since
            from institution_sweep join institution_account on id = institution_id
            cross join (
                select greatest(clock_timestamp(), max(created_at)) + interval '1 minute' as now_at
                from (select created_at from event order by id desc limit 1) as last
            ) as present
            where greatest(began_at, ended_at) > now_at
        """,
        of="installation",
        meaning="the instant was written by hand, or a clock jumped",
        todo="delete the row as the owner: a worker then reads the account from the beginning of its books",
    ),
    _rule(
        name="what_leaves_in_a_day_is_counted",
        says="the daily sum of transfers or refunds accepted over an account equals their total",
        broken="""
            select null::bigint as holder_id, array['account ' || name, each.kind || ' of ' || day] as ids,
                sum(made)::bigint::text as expected, sum(counted)::bigint::text as found, null::timestamptz as since
            from (
                select 'transfers' as kind, institution_id, (created_at at time zone 'America/Sao_Paulo')::date as day,
                    amount_cents as made, 0 as counted
                from transfer where direction = 'OUT' and not is_book and institution_id is not null
                union all
                select 'refunds', institution_id, (refund.created_at at time zone 'America/Sao_Paulo')::date,
                    refund.amount_cents, 0
                from refund join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
                where flow = 'OUT' and made_by = 'service' and not refund.is_book and institution_id is not null
                    -- One that was refused at once has no entries, and took nothing of the day.
                    and exists (
                        select from ledger_entry as entry where entry.cause_kind = 'refund' and entry.cause_id = refund.id
                            and entry.holder_id = refund.holder_id
                    )
                union all
                select 'transfers', institution_id, day, 0, cents from transfer_day
                union all
                select 'refunds', institution_id, day, 0, cents from refund_day
            ) as each
            join institution_account as account on account.id = institution_id
            group by name, each.kind, day having sum(made) <> sum(counted)
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="more may leave the account today than two operators have allowed, or less",
        todo="pause the account until the day is over: `pixconnect institution pause NAME`",
    ),
)
