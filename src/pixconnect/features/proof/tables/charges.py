"""The rules of charges, their payments, locations and revisions, and of counts kept on writing."""

from functools import partial
from typing import Final, LiteralString

from pixconnect.kernel.rules.charge_contents import CHARGE_FIELDS
from pixconnect.kernel.rules.proof import Rule

_rule: Final = partial(
    Rule, todo="look at the charge and at the payment, `pixconnect find ID`: the rail's settlement is the truth"
)

_MEMBERS: Final[dict[LiteralString, LiteralString]] = {
    **{name: f"""'"{name}":' || to_json({name})::text""" for name in CHARGE_FIELDS},
    "payer": """case when payer_name is not null
        then format('"payer":{"name":%s,"tax_id":%s}', to_json(payer_name), to_json(payer_tax_id)) end""",
    "type": """'"type":"charge"'""",
}
# As made by `fingerprint` and `digest_contents`. After a revision, the last revision has the earlier values.
DIGEST: Final[LiteralString] = f"""
    case when length(fingerprint) = 32 then sha256(convert_to(charge.contents, 'UTF8'))
        else substr(fingerprint, 1, 1) || substr(sha256(convert_to(
            '{{' || concat_ws(',', {", ".join([_MEMBERS[name] for name in sorted(_MEMBERS)])}) || '}}', 'UTF8'
        )), 1, 16) || substr(fingerprint, 18)
    end
"""

# Other rules follow from the money; these from the data that payers see, and from its result.
CHARGES: Final = (
    _rule(
        name="charge_is_paid_by_its_transfer",
        says="a charge is paid by exactly the transfer that settled, of its amount, and returned with it; a due one in parts",
        broken="""
            select charge.holder_id, array['charge ' || charge.id] as ids,
                concat_ws(' ', charge.status, charge.amount_cents, asked_cents) as expected,
                string_agg(format('transfer %s %s %s', transfer.id, transfer.status, transfer.amount_cents)
                    || coalesce(', ' || paid.amount_cents || ' of ' || paid.original_cents, ''), '; ') as found,
                charge.modified_at as since
            from {charges} as charge
            left join transfer on transfer.charge_id = charge.id and transfer.holder_id = charge.holder_id
                and transfer.settled_at is not null
            left join paid_amount as paid on paid.transfer_id = transfer.id and paid.holder_id = transfer.holder_id
            group by charge.id, charge.holder_id, charge.status, charge.amount_cents, charge.asked_cents, charge.modified_at
            having count(transfer.id) <> (charge.status in ('APPROVED', 'RETURNED'))::int
                or bool_or(transfer.amount_cents <> charge.amount_cents)
                or bool_or((transfer.status = 'RETURNED') <> (charge.status = 'RETURNED'))
                or bool_or(
                    due_on is not null and charge.institution_id is null
                    and (paid.charge_id, paid.amount_cents, paid.original_cents)
                        is distinct from (charge.id, charge.amount_cents, coalesce(asked_cents, charge.amount_cents))
                ) and charge.status in ('APPROVED', 'RETURNED')
        """,
        meaning="a payment was lost, invented or taken from its charge, or the charge or its fine and discount written by hand",
    ),
    _rule(
        name="payment_has_its_charge",
        says="the charge that a payment names is its holder's, and has its txid",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id, 'charge ' || charge_id] as ids,
                transfer.txid as expected, charge.txid as found, transfer.created_at as since
            from {transfers} as transfer
            left join charge on charge.id = charge_id and charge.holder_id = transfer.holder_id
            where charge_id is not null and (
                charge.id is null
                -- At an institution a static code has its own reference.
                or transfer.txid is not null and charge.txid <> transfer.txid and charge.institution_id is null
            )
        """,
        meaning="the payment or the charge was written by hand",
    ),
    _rule(
        name="charge_is_held_by_its_payment",
        says="a charge is held by exactly the payment that was accepted for it",
        broken="""
            select coalesce(charge.holder_id, transfer.holder_id) as holder_id,
                array['charge ' || coalesce(charge.id, charge_id), 'transfer ' || coalesce(held_by, transfer.id)] as ids,
                transfer.id::text as expected, held_by::text as found,
                coalesce(transfer.created_at, charge.modified_at) as since
            from (select * from charge where holder_id between $1 and $2 and held_by is not null) as charge
            full join (
                select * from transfer
                where holder_id between $1 and $2 and direction = 'IN' and status = 'PROCESSING' and charge_id is not null
            ) as transfer on transfer.id = charge.held_by and transfer.holder_id = charge.holder_id and charge_id = charge.id
            where charge.id is null or transfer.id is null
        """,
        meaning="a charge waits for a payment that will not come, or others may pay one that is being paid",
    ),
    _rule(
        name="charge_and_location_agree",
        says="a charge and its location agree, and its code leads to it, at one of our addresses",
        broken="""
            select coalesce(charge.holder_id, location.holder_id) as holder_id,
                array['charge ' || coalesce(charge.id, location.charge_id), 'location ' || location.id] as ids,
                path as expected, charge.br_code as found, coalesce(charge.created_at, location.created_at) as since
            from (select * from charge where holder_id between $1 and $2) as charge
            full join (select * from location where holder_id between $1 and $2 and charge_id is not null) as location
                on location.charge_id = charge.id and location.holder_id = charge.holder_id
            cross join lateral (
                select coalesce(case when due_on is not null then 'cobv/' else '' end || token, txid) as path,
                    case substr(br_code, 7, 6) when '010212' then 17 else 11 end as begins_at
            ) as each
            where charge.id is null or location.id is not null and is_unbound
                -- As `format_dynamic_br_code` writes it; a code without a location keeps its last one.
                or charge.institution_id is null and is_unbound is not true and not (
                    select bool_or(substr(br_code, begins_at) ^@ format('0014br.gov.bcb.pix25%s%s5204',
                        lpad(length(prefix || path)::text, 2, '0'), prefix || path))
                    from installation cross join unnest(location_prefixes) as prefix
                )
                or location.id is null and charge.contents is not null and charge.institution_id is null
                    and is_unbound is not true
        """,
        is_of_whole_runs=True,
        meaning="the location was moved to another charge, or a code was written by hand: payers see another charge",
    ),
    _rule(
        name="charge_says_what_it_asks_for",
        says="a charge asks for the amount, key and due date that it shows, and keeps the earlier contents of each revision",
        broken="""
            select charge.holder_id, array['charge ' || charge.id] as ids,
                format('%s %s, %s revisions', wanted ->> 'amount_cents', coalesce(wanted ->> 'key', 'a key of ours'),
                    coalesce(revision, 0)) as expected,
                format('%s %s, %s revisions', amount_cents, key, kept_count) as found, modified_at as since
            from {charges} as charge
            -- Read once, however often it is looked into.
            cross join lateral (select charge.contents::jsonb as wanted offset 0) as said
            cross join lateral (
                select count(*) as kept_count, count(*) filter (where kept.revision < charge.revision) as earlier_count
                from charge_revision as kept where kept.charge_id = charge.id and kept.holder_id = charge.holder_id
            ) as kept
            where (kept_count, earlier_count) <> (coalesce(revision, 0), coalesce(revision, 0))
                -- A key may have become another holder's since: its earlier owner is not kept.
                or contents is null and institution_id is null
                    and not exists (select from pix_key where pix_key.key = charge.key)
                    and not exists (select from removed_pix_key where removed_pix_key.key = charge.key)
                or key <> wanted ->> 'key'
                -- The amount that the payer chose, or paid at an institution, replaces the requested one.
                or status in ('PENDING', 'EXPIRED') and amount_cents <> (wanted ->> 'amount_cents')::bigint
                or contents is not null and coalesce(due_on::text, '') <> coalesce(wanted -> 'due' ->> 'due_on', '')
                or institution_id is null and due_on is null and {runs_on}
                    and expires_at <> created_at + make_interval(secs => (wanted ->> 'lifetime_s')::int)
                -- A midnight in Sao Paulo: the calendar of business days decides which, and no holidays are that long.
                or due_on is not null and not (
                    (expires_at at time zone 'America/Sao_Paulo')::time = time '00:00'
                    and (expires_at at time zone 'America/Sao_Paulo')::date - 1 - due_on - least(
                        coalesce((wanted -> 'due' ->> 'valid_days')::int, 30), date '9999-12-30' - due_on
                    ) between 0 and 14
                )
        """,
        meaning="payers are asked for another amount or key than requested; or a revision was lost",
    ),
    _rule(
        name="open_charge_is_as_wanted",
        says="an open charge has the contents of its first request, or of its last revision",
        broken="""
            select charge.holder_id, array['charge ' || charge.id] as ids, encode(wanted, 'hex') as expected,
                encode(said, 'hex') as found, modified_at as since
            from {charges} as charge
            left join charge_revision as last on last.charge_id = charge.id and last.holder_id = charge.holder_id
                and last.revision = charge.revision - 1
            cross join lateral (
                select case when charge.revision is null then fingerprint else next_digest end as wanted,
                    case when charge.revision is null then """
        + DIGEST
        + """ else sha256(convert_to(charge.contents, 'UTF8')) end as said
            ) as each
            where status = 'PENDING' and wanted is distinct from said
        """,
        meaning="its amount, payer, discounts, fine or interest were written by hand: payers pay less, or are asked for more",
    ),
)


_of_totals: Final = partial(
    Rule, todo="no money is wrong; counts differ from lists, and limits use the counts: report it to the developers"
)

# Triggers write totals, to be summed later: pending changes are counted with the totals that they will join.
TOTALS: Final = (
    _of_totals(
        name="totals_are_true",
        says="totals of charges, transfers, refunds, locations, money spent and Pix received equal a count",
        broken="""
            select holder_id, array[kind, status, hour::text] as ids, sum(counted)::bigint::text as expected,
                sum(noted)::bigint::text as found, hour as since
            from (
                select holder_id, kind, status, date_trunc('hour', at, 'UTC') as hour, counted, 0 as noted
                from (
                    select holder_id, 'charge' as kind, status, created_at as at, 1 as counted from charge
                    union all select holder_id, 'charge_due', status, created_at, 1 from charge where due_on is not null
                    union all select holder_id, 'transfer', status, created_at, 1 from transfer
                    union all select holder_id, 'refund', status, created_at, 1 from refund
                    union all select holder_id, 'location', status, created_at, 1 from location
                    union all select holder_id, 'spent', 'OUT', created_at, amount_cents from transfer
                    where direction = 'OUT' and status in ('PROCESSING', 'CONFIRMED', 'RETURNED')
                    -- An hour before the known ones that is missing had none.
                    union all select holder_id, 'received', 'IN', settled_at, 1
                    from transfer join received_known using (holder_id) where direction = 'IN' and settled_at < until
                ) as made
                union all select holder_id, kind, status, hour, 0, count from tally
                union all select holder_id, kind, status, hour, 0, change from tally_change
                union all select holder_id, 'received', 'IN', hour, 0, count from received_hour
            ) as listed
            where holder_id between $1 and $2
            group by holder_id, kind, status, hour
            having sum(counted) <> sum(noted)
        """,
        is_of_whole_runs=True,
        meaning="a row was lost, invented or redated and its total was not, or the total was written by hand",
    ),
    _of_totals(
        name="totals_of_events_are_true",
        says="totals of events and deliveries equal a count, as far back as events are kept",
        broken="""
            with edge as (
                select coalesce(max(end_id), 0) as first_id, parent from event_partition
                where detached_at is not null group by parent
            ),
            counted as (
                select 'event' as kind, holder_id as owner_id, 'made' as status,
                    date_trunc('hour', created_at, 'UTC') as hour, 1 as counted, 0 as noted
                from event
                union all
                select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), 1, 0 from delivery
                union all
                select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), 1, 0 from delivery
                where status <> 'pending'
                union all select kind, owner_id, status, hour, 0, count from webhook_tally
                union all select kind, owner_id, status, hour, 0, change from webhook_tally_change
            )
            select case kind when 'event' then owner_id
                    else (select holder_id from webhook_endpoint where id = owner_id) end as holder_id,
                array[kind, owner_id::text, status, hour::text] as ids,
                sum(counted)::bigint::text as expected, sum(noted)::bigint::text as found, hour as since
            from counted
            where not exists (select from edge)
            group by kind, owner_id, status, hour
            having sum(counted) <> sum(noted)
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="an event or a delivery was lost or invented, or the total was written by hand",
    ),
)
