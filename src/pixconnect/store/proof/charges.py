"""The rules of charges, their payments, locations and revisions."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.proof.rule import Rule

_LOOK: Final = "look at the charge and at the payment, `pixconnect find ID`: what the rail settled is the truth"
_LOOK_AT_LOT: Final = (
    "compare what the holder has sent with the charges of these txids, and ask it to send the lot again"
)

# Other rules follow from the money; these from what a payer is shown and what becomes of it.
CHARGES: Final = (
    Rule(
        name="charge_is_paid_by_its_transfer",
        says="a charge is paid by exactly the transfer that settled, of its amount, and returned with it",
        broken="""
            select charge.holder_id, array['charge ' || charge.id] as ids, charge.status as expected,
                coalesce(string_agg(format('transfer %s %s %s', transfer.id, transfer.status, transfer.amount_cents), ', '), '')
                    as found,
                charge.modified_at as since
            from {charges} as charge
            left join transfer on transfer.charge_id = charge.id and transfer.holder_id = charge.holder_id
                and transfer.settled_at is not null
            group by charge.id, charge.holder_id, charge.status, charge.amount_cents, charge.modified_at
            having count(transfer.id) <> (charge.status in ('APPROVED', 'RETURNED'))::int
                or bool_or(transfer.amount_cents <> charge.amount_cents)
                or bool_or((transfer.status = 'RETURNED') <> (charge.status = 'RETURNED'))
        """,
        meaning="a payment was lost, invented or taken from its charge, or the charge's state was written by hand",
        todo=_LOOK,
    ),
    Rule(
        name="payment_has_its_charge",
        says="the charge that a payment names is its holder's, and has its txid",
        broken="""
            select transfer.holder_id, array['transfer ' || transfer.id, 'charge ' || charge_id] as ids,
                transfer.txid as expected, charge.txid as found, transfer.created_at as since
            from {transfers} as transfer
            left join charge on charge.id = charge_id and charge.holder_id = transfer.holder_id
            where charge_id is not null and (
                charge.id is null
                -- At an institution a static code has a reference of its own.
                or transfer.txid is not null and charge.txid <> transfer.txid and charge.institution_id is null
            )
        """,
        meaning="the payment or the charge was written by hand",
        todo=_LOOK,
    ),
    Rule(
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
        todo=_LOOK,
    ),
    Rule(
        name="charge_and_location_agree",
        says="a charge and its location agree, and its code leads there",
        broken="""
            select coalesce(charge.holder_id, location.holder_id) as holder_id,
                array['charge ' || coalesce(charge.id, location.charge_id), 'location ' || location.id] as ids,
                location.token as expected, charge.br_code as found, coalesce(charge.created_at, location.created_at) as since
            from (select * from charge where holder_id between $1 and $2) as charge
            full join (select * from location where holder_id between $1 and $2 and charge_id is not null) as location
                on location.charge_id = charge.id and location.holder_id = charge.holder_id
            where charge.id is null or location.id is not null and (is_unbound or br_code not like '%' || token || '%')
                or location.id is null and charge.contents is not null and charge.institution_id is null
                    and is_unbound is not true
        """,
        is_of_whole_runs=True,
        meaning="the location was moved to another charge, or a code was written by hand: payers see another charge",
        todo=_LOOK,
    ),
    Rule(
        name="charge_leads_to_itself",
        says="the code of a charge of the contract names it, and its key is or was one of ours",
        broken="""
            select holder_id, array['charge ' || id] as ids, format('%s %s', txid, key) as expected,
                format('%s %s', br_code, (select pix_key.key from pix_key where pix_key.key = charge.key)) as found,
                modified_at as since
            from {charges} as charge
            -- Other codes are the standard's, whose locations are compared, and institutions' own.
            where contents is null and institution_id is null and (
                strpos(br_code, txid) = 0
                -- A key may have become another holder's since: whose it was then is not kept.
                or not exists (select from pix_key where pix_key.key = charge.key)
                    and not exists (select from removed_pix_key where removed_pix_key.key = charge.key)
            )
        """,
        meaning="payers are led to somebody else's charge, or to pay to a key that was never ours",
        todo=_LOOK,
    ),
    Rule(
        name="charge_says_what_it_asks_for",
        says="what a charge of the standard's door says is what it asks for, to whose key and until when",
        broken="""
            select holder_id, array['charge ' || id] as ids,
                format('%s %s', contents::jsonb ->> 'amount_cents', contents::jsonb ->> 'key') as expected,
                format('%s %s', amount_cents, key) as found, modified_at as since
            from {charges} as charge
            where contents is not null and (
                key <> contents::jsonb ->> 'key'
                -- What the payer chose, or paid at an institution, is written over what was asked for.
                or status in ('PENDING', 'EXPIRED') and amount_cents <> (contents::jsonb ->> 'amount_cents')::bigint
                or coalesce(due_on::text, '') <> coalesce(contents::jsonb -> 'due' ->> 'due_on', '')
                or institution_id is null and due_on is null and {runs_on}
                    and expires_at <> created_at + make_interval(secs => (contents::jsonb ->> 'lifetime_s')::int)
                -- A midnight in Sao Paulo: which one the calendar of business days says, and no holidays are that long.
                or due_on is not null and not (
                    (expires_at at time zone 'America/Sao_Paulo')::time = time '00:00'
                    and (expires_at at time zone 'America/Sao_Paulo')::date - 1 - due_on - least(
                        coalesce((contents::jsonb -> 'due' ->> 'valid_days')::int, 30), date '9999-12-30' - due_on
                    ) between 0 and 14
                )
            )
        """,
        meaning="payers are asked for another amount, or to pay to another key, than was wanted",
        todo=_LOOK,
    ),
    Rule(
        name="due_charge_is_paid_in_parts",
        says="what a payment of a charge with a due date consists of is kept, and is of its amount and of what the charge says",
        broken="""
            select charge.holder_id, array['charge ' || charge.id] as ids,
                format('%s of %s', charge.amount_cents, coalesce(asked_cents, charge.amount_cents)) as expected,
                format('%s of %s', paid.amount_cents, paid.original_cents) as found, charge.modified_at as since
            from {charges} as charge
            left join transfer on transfer.charge_id = charge.id and transfer.holder_id = charge.holder_id
                and transfer.settled_at is not null
            left join paid_amount as paid on paid.transfer_id = transfer.id and paid.holder_id = transfer.holder_id
            where due_on is not null and charge.institution_id is null and charge.status in ('APPROVED', 'RETURNED')
                and (paid.charge_id, paid.amount_cents, paid.original_cents)
                    is distinct from (charge.id, charge.amount_cents, coalesce(asked_cents, charge.amount_cents))
        """,
        meaning="nobody can say what fine, interest and discount the payer has paid or got, or somebody has written it by hand",
        todo=_LOOK,
    ),
    Rule(
        name="revisions_are_kept",
        says="what a charge said before each of its revisions is kept",
        broken="""
            select charge.holder_id, array['charge ' || charge.id] as ids, coalesce(revision, 0)::text as expected,
                (
                    select count(*)::text from charge_revision as kept
                    where kept.charge_id = charge.id and kept.holder_id = charge.holder_id
                ) as found,
                charge.modified_at as since
            from {charges} as charge
            where coalesce(revision, 0) <> (
                select count(*) from charge_revision as kept
                where kept.charge_id = charge.id and kept.holder_id = charge.holder_id and kept.revision < charge.revision
            ) or coalesce(revision, 0) <> (
                select count(*) from charge_revision as kept
                where kept.charge_id = charge.id and kept.holder_id = charge.holder_id
            )
        """,
        meaning="a revision was lost or invented",
        todo=_LOOK,
    ),
    Rule(
        name="lot_has_its_charges",
        says="a lot has as many charges as were asked for, each at a place of its own",
        broken="""
            select coalesce(lot.holder_id, item.holder_id) as holder_id, array['lot ' || coalesce(number, lot_number)] as ids,
                item_count::text as expected, items_count::text as found, created_at as since
            from (select * from charge_lot where holder_id between $1 and $2) as lot
            full join (
                select holder_id, lot_number, count(*) as items_count, max(place) as last_place
                from lot_item where holder_id between $1 and $2 group by holder_id, lot_number
            ) as item on item.holder_id = lot.holder_id and lot_number = number
            where (items_count, last_place + 1) is distinct from (item_count::bigint, item_count)
        """,
        is_of_whole_runs=True,
        meaning="a charge of a lot was lost or added: whoever has sent it does not learn what became of it",
        todo=_LOOK_AT_LOT,
    ),
    Rule(
        name="charge_of_a_lot_is_its_own",
        says="a charge of a lot is its holder's, with the txid and a due date, and there is none that the lot does not know",
        broken="""
            select item.holder_id, array[format('lot %s', lot_number), format('place %s', place)] as ids,
                format('%s %s', charge_id, item.txid) as expected, format('%s %s', charge.id, charge.txid) as found,
                charge.created_at as since
            from (select * from lot_item where holder_id between $1 and $2) as item
            left join charge on charge.holder_id = item.holder_id and charge.txid = item.txid
            where charge_id is distinct from charge.id or charge.id is not null and due_on is null
        """,
        is_of_whole_runs=True,
        meaning="the lot shows another charge than the one that payers are asked for, or one that was never made",
        todo=_LOOK_AT_LOT,
    ),
    Rule(
        name="charge_of_a_lot_waits_for_a_worker",
        says="a charge of a lot is under way exactly while a request of it is there",
        broken="""
            select coalesce(item.holder_id, asked.holder_id) as holder_id,
                array[
                    format('lot %s', coalesce(item.lot_number, asked.lot_number)),
                    format('place %s', coalesce(item.place, asked.place))
                ] as ids,
                status as expected, format('%s requests', coalesce(requests_count, 0)) as found, null::timestamptz as since
            from (select * from lot_item where holder_id between $1 and $2) as item
            full join (
                select holder_id, lot_number, place, count(*) as requests_count
                from lot_request where holder_id between $1 and $2 group by holder_id, lot_number, place
            ) as asked on asked.holder_id = item.holder_id and asked.lot_number = item.lot_number and asked.place = item.place
            where status is null or (status = 'PROCESSING') <> (requests_count is not null)
        """,
        is_of_whole_runs=True,
        meaning="what was asked for is never done, or would be done a second time",
        todo=_LOOK_AT_LOT,
    ),
)
