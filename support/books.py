"""What must hold of everything that is written, whatever happened before: asked in SQL, of the tables alone."""

from typing import Final

from support.service import Service

RULES: Final = {
    "no delivery waits for a body that will not be sent": """
        select delivery.id from delivery join delivery as first on first.id = delivery.covered_by
        where delivery.status = 'pending' and first.status <> 'pending'
    """,
    "a balance is the sum of its postings": """
        select balance.holder_id from balance
        left join lateral (
            select coalesce(sum(amount_cents * ((credit_account = 'available')::int - (debit_account = 'available')::int)), 0)
                    as available,
                coalesce(sum(amount_cents * ((credit_account = 'reserved')::int - (debit_account = 'reserved')::int)), 0)
                    as reserved,
                coalesce(sum(amount_cents * ((debit_account = 'deficit')::int - (credit_account = 'deficit')::int)), 0)
                    as deficit,
                count(number) as numbers
            from ledger_entry where ledger_entry.holder_id = balance.holder_id
        ) as posted on true
        where (available_cents, reserved_cents, deficit_cents, last_number) <> (available, reserved, deficit, numbers)
    """,
    "what is there less what is owed came from somewhere, and nothing is available while anything is owed": """
        select holder_id from balance
        where available_cents + reserved_cents - deficit_cents <> -(settlement_cents + funding_cents)
            or available_cents > 0 and deficit_cents > 0 or least(available_cents, reserved_cents, deficit_cents) < 0
    """,
    "what is owed is what movements and returns made there lacked and was not repaid": """
        select holder_id from balance where deficit_cents <> (
            select coalesce(sum(deficit_cents), 0) from movement where movement.holder_id = balance.holder_id
        ) + (
            select coalesce(sum(amount_cents), 0) from ledger_entry
            where ledger_entry.holder_id = balance.holder_id and debit_account = 'deficit' and refund_id is not null
        ) - (
            select coalesce(sum(amount_cents), 0) from repayment where repayment.holder_id = balance.holder_id
        )
    """,
    "each repayment has exactly its entry, and was taken of what had come before it": """
        select repayment.id, entry.id from repayment
        full join (select * from ledger_entry where credit_account = 'deficit') as entry using (id, holder_id)
        left join ledger_entry as source on source.id = source_entry_id and source.holder_id = repayment.holder_id
        where repayment.id is null or entry.id is null or repayment.amount_cents <> entry.amount_cents
            or entry.debit_account <> 'available' or entry.number is null
            or source.credit_account is distinct from 'available' or source.amount_cents < repayment.amount_cents
            or source.created_at > entry.created_at
            or entry.transfer_id is not null or entry.refund_id is not null
    """,
    "numbers have no gap, running balances add up, instants rise": """
        select holder_id, number from (
            select *,
                lag(number, 1, 0::bigint) over following as number_before,
                lag(running_balance_cents, 1, 0::bigint) over following as balance_before,
                lag(created_at, 1, '-infinity') over following as created_before
            from ledger_entry where number is not null window following as (partition by holder_id order by number)
        ) as entry
        where number <> number_before + 1 or created_at <= created_before
            or running_balance_cents <> balance_before
                + case when credit_account in ('available', 'reserved') then amount_cents else -amount_cents end
    """,
    "what is reserved is what is under way": """
        select holder_id from balance where reserved_cents <> (
            select coalesce(sum(amount_cents), 0) from transfer
            where transfer.holder_id = balance.holder_id and direction = 'OUT' and status = 'PROCESSING'
        ) + (
            select coalesce(sum(amount_cents), 0) from refund
            where refund.holder_id = balance.holder_id and flow = 'OUT' and status = 'PROCESSING'
        )
    """,
    "whatever is under way over the rail has its order, and nothing else has one": """
        select name from (
            select end_to_end_id as name, id, holder_id, slot from transfer
            where direction = 'OUT' and status = 'PROCESSING' and not is_book
            union all
            select return_id, id, holder_id, slot from refund where flow = 'OUT' and status = 'PROCESSING' and not is_book
        ) as under_way
        full join open_order using (name)
        where (under_way.id, under_way.holder_id, under_way.slot)
            is distinct from (resource_id, open_order.holder_id, open_order.slot)
    """,
    "what was confirmed is a transfer of who initiated it": """
        select initiated_transfer.end_to_end_id from initiated_transfer
        join transfer using (end_to_end_id)
        where direction = 'OUT' and (transfer.holder_id, external_id, initiation_type)
            is distinct from (initiated_transfer.holder_id, initiated_transfer.end_to_end_id, 'KEY')
    """,
    "settlement is what went over the rail, by book, and at the institution": """
        select holder_id from balance where settlement_cents <> (
            select coalesce(sum(case direction when 'OUT' then amount_cents else -amount_cents end), 0) from transfer
            where transfer.holder_id = balance.holder_id and settled_at is not null
        ) + (
            select coalesce(sum(case flow when 'OUT' then amount_cents else -amount_cents end), 0) from refund
            where refund.holder_id = balance.holder_id and status = 'RETURNED'
        ) + (
            select coalesce(sum(case direction when 'OUT' then amount_cents else -amount_cents end), 0) from movement
            where movement.holder_id = balance.holder_id and status = 'POSTED'
        )
    """,
    "each movement that was posted has exactly its entries, and no other entry has their place": """
        with moved as (
            select item_id, holder_id, entry_id as id, amount_cents - deficit_cents as amount_cents,
                case direction when 'IN' then 'settlement' else 'available' end::ledger_account as debit_account,
                case direction when 'IN' then 'available' else 'settlement' end::ledger_account as credit_account
            from movement where status = 'POSTED' and amount_cents > deficit_cents
            union all
            select item_id, holder_id, deficit_entry_id, deficit_cents, 'deficit', 'settlement'
            from movement where deficit_cents > 0
        )
        select item_id, entry.id from moved
        full join (
            select * from ledger_entry where transfer_id is null and 'settlement' in (debit_account, credit_account)
        ) as entry using (id, holder_id, amount_cents, debit_account, credit_account)
        where item_id is null or entry.id is null or entry.refund_id is not null
    """,
    "an item that is a transfer or refund is no movement, unless that was taken back": """
        select item_id from movement join (
            select end_to_end_id as name from transfer union all select network_id from transfer
            union all select return_id from refund union all select network_id from refund
        ) as named on named.name = item_id
        where not exists (select from movement as opposite where opposite.opposite_of = movement.item_id)
    """,
    "what takes a movement back is its opposite, and the line of that movement is something else": """
        select opposite.item_id from movement as opposite
        left join movement as undone on undone.holder_id = opposite.holder_id and undone.item_id = opposite.opposite_of
        where opposite.opposite_of is not null and (
            undone.item_id is null or undone.opposite_of is not null or undone.direction = opposite.direction
            or undone.amount_cents <> opposite.amount_cents
        )
        union all
        select institution_item.item_id from institution_item
        join holder using (institution_id)
        join movement as opposite on opposite.holder_id = holder.id and opposite.opposite_of = joined_id
        where joined_kind = 'movement'
    """,
    "a return made there has taken its amount at once": """
        select refund.id from refund where made_by = 'institution' and (
            status <> 'RETURNED' or amount_cents <> (
                select coalesce(sum(entry.amount_cents), 0) from ledger_entry as entry
                where entry.refund_id = refund.id and entry.holder_id = refund.holder_id
                    and entry.credit_account = 'settlement' and entry.debit_account in ('available', 'deficit')
            )
        )
    """,
    "the network has an instant for what settled over it alone": """
        select id from transfer where network_settled_at is not null and (settled_at is null or is_book)
        union all
        select id from refund where network_settled_at is not null and (settled_at is null or is_book)
    """,
    "a transfer knows what was returned of it": """
        select id from transfer where returned_cents <> (
            select coalesce(sum(amount_cents), 0) from refund
            where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id and refund.status = 'RETURNED'
        ) or returning_cents <> (
            select coalesce(sum(amount_cents), 0) from refund
            where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
                and refund.status = 'PROCESSING' and flow = 'OUT'
        )
    """,
    "a charge is paid by exactly the transfer that settled": """
        select id from charge where (status in ('APPROVED', 'RETURNED'))::int <> (
            select count(*) from transfer where charge_id = charge.id and transfer.holder_id = charge.holder_id
                and settled_at is not null
                and transfer.amount_cents = charge.amount_cents
                and (transfer.status = 'RETURNED') = (charge.status = 'RETURNED')
        )
        union all
        select transfer.id from transfer join charge on charge.id = charge_id and charge.holder_id = transfer.holder_id
        where settled_at is not null and charge.status not in ('APPROVED', 'RETURNED')
    """,
    "a charge is held by exactly the payment that was accepted for it": """
        select charge.id, transfer.id from charge
        full join (
            select * from transfer where direction = 'IN' and status = 'PROCESSING' and charge_id is not null
        ) as transfer on transfer.id = charge.held_by and transfer.holder_id = charge.holder_id and charge_id = charge.id
        where (charge.held_by is not null or transfer.id is not null)
            and (charge.id is null or transfer.id is null or charge.status <> 'PENDING')
    """,
    "what the network calls an order is known wherever it is shown, and is the name of no other": """
        select open_order.name from open_order
        left join transfer on transfer.id = resource_id and transfer.holder_id = open_order.holder_id and left(name, 1) = 'E'
        left join refund on refund.id = resource_id and refund.holder_id = open_order.holder_id and left(name, 1) = 'D'
        where open_order.network_id is distinct from coalesce(transfer.network_id, refund.network_id)
        union all
        select return_id from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
        where original_end_to_end_id <> coalesce(transfer.network_id, transfer.end_to_end_id)
        union all
        select name from (
            select network_id as name, 'OUT' as direction, amount_cents from transfer where network_id is not null
            union all select network_id, 'OUT', amount_cents from refund where network_id is not null
            union all select end_to_end_id, direction, amount_cents from transfer
            union all select return_id, flow, amount_cents from refund
        ) as known
        group by name having count(*) <> count(distinct direction) or min(amount_cents) <> max(amount_cents)
    """,
    "both sides of a book transfer agree": """
        select end_to_end_id from transfer where is_book
        group by end_to_end_id
        having count(*) <> 2 or min(status) <> max(status) or min(amount_cents) <> max(amount_cents)
            or min(returned_cents) <> max(returned_cents)
    """,
    "no event stands in the feed twice, or with another holder": """
        select event_id from event_feed cross join unnest(event_ids) as event_id
        left join event on event.id = event_id and event.holder_id = event_feed.holder_id
        group by event_id having count(*) > 1 or count(event.id) = 0
    """,
    "every state of a transfer has exactly one event, in order": """
        select transfer.id from transfer
        left join lateral (
            select array_agg(name order by id) as names from event
            where event.resource = 'transfer' and resource_id = transfer.id and event.holder_id = transfer.holder_id
                and name <> 'transfer.in.completed'
        ) as told on true
        where names is distinct from case
            when status = 'PROCESSING' then array['transfer.' || lower(direction) || '.processing']
            else array[
                'transfer.' || lower(direction) || '.processing',
                'transfer.' || lower(direction) || case when settled_at is null then '.error' else '.confirmed' end
            ]
        end
    """,
    "a payment has an event of its payer if that became known later, and once": """
        select transfer.id from transfer
        left join payer_completion as completion on completion.transfer_id = transfer.id
            and completion.holder_id = transfer.holder_id
        where (completion.transfer_id is not null)::integer <> (
            select count(*) from event
            where event.resource = 'transfer' and resource_id = transfer.id and event.holder_id = transfer.holder_id
                and name = 'transfer.in.completed'
        ) or completion.before = transfer.counterparty
    """,
    "every state of a refund has exactly one event, in order": """
        select refund.id from refund
        left join lateral (
            select array_agg(name order by id) as names from event
            where event.resource = 'refund' and resource_id = refund.id and event.holder_id = refund.holder_id
        ) as told on true
        where names is distinct from case
            when status = 'PROCESSING' then array['refund.' || lower(flow) || '.processing']
            else array[
                'refund.' || lower(flow) || '.processing',
                'refund.' || lower(flow) || case status when 'RETURNED' then '.returned' else '.error' end
            ]
        end
    """,
    # Those of before there was such an event have none.
    "a movement that moved money has one event at most, and nothing else has such": """
        select item_id, told.id from (
            select item_id, holder_id, coalesce(entry_id, deficit_entry_id) as resource_id from movement
            where status = 'POSTED' and amount_cents > 0
        ) as moved
        right join (
            select array_agg(name) as names, min(id) as id, resource_id, holder_id from event
            where resource = 'movement' group by resource_id, holder_id
        ) as told using (resource_id, holder_id)
        where item_id is null or names is distinct from array['movement.posted']
    """,
    "every state of a charge has exactly one event, in order": """
        select charge.id from charge
        left join lateral (
            select string_agg(name, ' ' order by id) as names from event
            where event.resource = 'charge' and resource_id = charge.id and event.holder_id = charge.holder_id
        ) as told on true
        -- One that had expired is pending again when the standard's door gives it more time.
        where names is null or names !~ ('^(qrcode.pending qrcode.expired )*' || case
            when status = 'PENDING' then 'qrcode.pending$'
            -- At an institution it may be paid after it has expired here.
            when status in ('APPROVED', 'RETURNED') and institution_id is not null
                then 'qrcode.pending (qrcode.expired )?qrcode.approved$'
            when status in ('APPROVED', 'RETURNED') then 'qrcode.pending qrcode.approved$'
            else 'qrcode.pending qrcode.expired$'
        end)
    """,
    "a charge and its location agree": """
        select charge.id, location.id from charge
        full join (select * from location where charge_id is not null) as location
            on location.charge_id = charge.id and location.holder_id = charge.holder_id
        where charge.id is null or location.id is not null and (is_unbound or br_code not like '%' || token || '%')
            or location.id is null and contents is not null and is_unbound is not true and charge.institution_id is null
    """,
    "what a charge said before each of its revisions is kept": """
        select charge.id from charge where coalesce(revision, 0) <> (
            select count(*) from charge_revision as kept where kept.charge_id = charge.id and kept.holder_id = charge.holder_id
                and kept.revision < charge.revision
        )
    """,
    "totals are true": """
        with counted as (
            select holder_id, 'charge' as kind, status, date_trunc('hour', created_at, 'UTC') as hour, 1 as change from charge
            union all select holder_id, 'transfer', status, date_trunc('hour', created_at, 'UTC'), 1 from transfer
            union all select holder_id, 'refund', status, date_trunc('hour', created_at, 'UTC'), 1 from refund
            union all select holder_id, 'location', status, date_trunc('hour', created_at, 'UTC'), 1 from location
            union all select holder_id, 'spent', 'OUT', date_trunc('hour', created_at, 'UTC'), amount_cents from transfer
            where direction = 'OUT' and status in ('PROCESSING', 'CONFIRMED', 'RETURNED')
            union all select holder_id, kind, status, hour, -count from tally
            union all select holder_id, kind, status, hour, -change from tally_change
        )
        select holder_id, kind, status, hour from counted group by 1, 2, 3, 4 having sum(change) <> 0
    """,
    "totals of events and deliveries are what a count says": """
        with counted as (
            select 'event' as kind, holder_id as owner_id, 'made' as status, date_trunc('hour', created_at, 'UTC') as hour,
                1 as change from event
            union all select 'delivery', endpoint_id, 'made', date_trunc('hour', created_at, 'UTC'), 1 from delivery
            union all select 'delivery', endpoint_id, status, date_trunc('hour', created_at, 'UTC'), 1 from delivery
            where status <> 'pending'
            union all select kind, owner_id, status, hour, -count from webhook_tally
            union all select kind, owner_id, status, hour, -change from webhook_tally_change
        )
        select kind, owner_id, status, hour from counted group by 1, 2, 3, 4 having sum(change) <> 0
    """,
}


async def check_books(service: Service) -> None:
    """Fail with the rule that is broken and the rows that break it."""
    for rule, broken in RULES.items():
        rows = await service.context.pool.fetch(broken)
        assert not rows, f"{rule}: {[tuple(row) for row in rows]}"
