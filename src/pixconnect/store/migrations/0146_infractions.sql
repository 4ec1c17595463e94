-- Infractions: somebody contests a Pix that a holder received. The institution blocks, decides and gives back; here it is mirrored, and
-- the holder's answer is kept until the institution has it.

alter table event drop constraint event_resource_check;
alter table event add constraint event_resource_check check (
    resource in ('charge', 'transfer', 'refund', 'movement', 'adjustment', 'infraction')
) not valid;

alter table client drop constraint scopes_exist;
alter table client add constraint scopes_exist check (
    cardinality(scopes) between 1 and 21
    and scopes <@ array[
        'charge.read', 'charge.write', 'transfer.read', 'transfer.write', 'refund.read', 'refund.write', 'ledger.read',
        'webhook.read', 'webhook.write', 'infraction.read', 'infraction.write', 'cob.read', 'cob.write', 'cobv.read',
        'cobv.write', 'lotecobv.read', 'lotecobv.write', 'pix.read', 'pix.write', 'payloadlocation.read',
        'payloadlocation.write'
    ]
);

create table infraction (
    id bigint not null check (id between 1 and 9007199254740991),
    holder_id bigint not null references balance,
    institution_id smallint references institution_account,
    name text collate "C" not null check (length(name) between 1 and 64),
    transfer_id bigint not null,
    end_to_end_id text collate "C" not null,
    charge_id bigint,
    txid text,
    charge_external_id text,
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    taken_cents bigint not null check (taken_cents between 0 and 999999999999),
    reason text collate "C" not null check (reason in ('fraud', 'operational_flaw')),
    situation text collate "C" not null
        check (situation in ('scam', 'account_takeover', 'coercion', 'fraudulent_access', 'other')),
    words text check (length(words) between 1 and 2000),
    state text collate "C" not null check (state in ('open', 'answered', 'taken', 'released')),
    opened_at timestamptz not null check (isfinite(opened_at)),
    respond_by timestamptz not null check (isfinite(respond_by)),
    told_at timestamptz not null check (isfinite(told_at)),
    defence text check (length(defence) between 1 and 10000),
    defended_at timestamptz check (isfinite(defended_at)),
    defence_state text collate "C" check (defence_state in ('sending', 'sent', 'refused')),
    defence_refusal text check (length(defence_refusal) between 1 and 1000),
    send_at timestamptz check (isfinite(send_at)),
    remind_at timestamptz check (isfinite(remind_at)),
    slot smallint not null check (slot between 0 and 255),
    created_at timestamptz not null check (isfinite(created_at)),
    modified_at timestamptz not null check (isfinite(modified_at)),
    primary key (id, holder_id),
    foreign key (transfer_id, holder_id) references transfer (id, holder_id),
    constraint answered_with_words check (
        (defence is null) = (defended_at is null) and (defence is null) = (defence_state is null)
        and (defence_refusal is not null) = (defence_state is not distinct from 'refused')
    ),
    constraint sent_while_it_is_open check (send_at is null or state = 'open' and defence_state = 'sending'),
    constraint reminded_while_it_is_open check (remind_at is null or state = 'open')
);
create unique index infraction_name on infraction (name, coalesce(institution_id, 0));
create index infraction_list on infraction ((holder_id + 0), created_at, id);
create index infraction_list_by_status on infraction ((holder_id + 0), state, created_at, id);
create index infraction_of_transfer on infraction (transfer_id, holder_id);
create index infraction_due on infraction (least(send_at, remind_at), slot) where least(send_at, remind_at) is not null;
grant select, insert on infraction to pixconnect_service;
grant update (
    taken_cents, state, respond_by, told_at, defence, defended_at, defence_state, defence_refusal, send_at, remind_at, modified_at
) on infraction to pixconnect_service;
create trigger infraction_is_never_deleted before delete or truncate on infraction
    for each statement execute function refuse_change();

create table infraction_return (
    refund_id bigint not null,
    holder_id bigint not null,
    infraction_id bigint not null,
    primary key (refund_id, holder_id),
    foreign key (refund_id, holder_id) references refund (id, holder_id),
    foreign key (infraction_id, holder_id) references infraction (id, holder_id)
);
create index infraction_return_of on infraction_return (infraction_id, holder_id);
grant select, insert on infraction_return to pixconnect_service;
create trigger infraction_return_is_append_only before delete or update or truncate on infraction_return
    for each statement execute function refuse_change();

-- It is of a received Pix and of no more than that; it has taken what its returns come to; its block goes with it.
create function check_infractions() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select told.id, told.holder_id, told.state into misfit from new_row as told
    left join transfer as paid on paid.id = told.transfer_id and paid.holder_id = told.holder_id
    left join block on block.reference = told.name and block.holder_id = told.holder_id
        and block.institution_id is not distinct from told.institution_id
    where paid.direction <> 'IN' or paid.is_book or paid.settled_at is null or paid.amount_cents < told.amount_cents
        or paid.institution_id is distinct from told.institution_id or paid.end_to_end_id <> told.end_to_end_id
        or paid.charge_id is distinct from told.charge_id
        or block.id is null or block.kind <> 'med' or block.transfer_id is distinct from told.transfer_id
        or told.state in ('open', 'answered') and block.state <> 'open' or told.state = 'released' and block.state <> 'ended'
        or told.taken_cents <> (
            select coalesce(sum(refund.amount_cents), 0) from infraction_return as given
            join refund on refund.id = given.refund_id and refund.holder_id = given.holder_id
            where given.infraction_id = told.id and given.holder_id = told.holder_id
                and refund.transfer_id = told.transfer_id and refund.made_by = 'institution'
        )
    limit 1;
    if found then
        raise exception 'infraction % of holder % cannot be % with the Pix, block and returns that it has',
            misfit.id, misfit.holder_id, misfit.state
            using errcode = 'integrity_constraint_violation', constraint = 'an_infraction_has_what_belongs_to_it';
    end if;
    return null;
end $$;
create trigger check_new after insert on infraction referencing new table as new_row
    for each statement execute function check_infractions();
create trigger check_moved after update on infraction referencing new table as new_row
    for each statement execute function check_infractions();

create function keep_infraction() returns trigger language plpgsql as $$
begin
    raise exception 'infraction % of holder % goes back from % to %, or its answer is changed', new.id, new.holder_id,
        old.state, new.state
        using errcode = 'integrity_constraint_violation', constraint = 'an_infraction_goes_on';
end $$;
create trigger keep_infraction before update on infraction for each row
    when (
        old.state in ('taken', 'released') and new.state <> old.state or old.state = 'answered' and new.state = 'open'
        or new.taken_cents < old.taken_cents
        or old.defence_state in ('sending', 'sent') and new.defence is distinct from old.defence
        or old.defence_state = 'sent' and new.defence_state <> 'sent'
    )
    execute function keep_infraction();

-- As before, and over the installation's own rail a return that the institution made is one of an infraction.
create or replace function check_refunds() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    ids bigint[];
    holder_ids bigint[];
    befores text[];
    misfit record;
begin
    if tg_op = 'INSERT' then
        select array_agg(id), array_agg(holder_id), array_agg('NEW'::text) into ids, holder_ids, befores from new_row;
    else
        select array_agg(id), array_agg(holder_id), array_agg(before) into ids, holder_ids, befores from (
            select id, holder_id, max(before) as before from (
                select id, holder_id, status as before, null as after from old_row
                union all
                select id, holder_id, null, status from new_row
            ) as side
            group by id, holder_id having max(before) is distinct from max(after)
        ) as moved;
    end if;
    if ids is null then
        return null;
    end if;

    select refund.id, refund.holder_id, refund.status, before into misfit
    from unnest(ids, holder_ids, befores) as moved (id, holder_id, before)
    left join refund on refund.id = moved.id and refund.holder_id = moved.holder_id
    left join transfer as original on original.id = refund.transfer_id and original.holder_id = refund.holder_id
    where not exists (
        select from allowed_transition as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.before = moved.before and allowed.after = refund.status and allowed.made_by = refund.made_by
    ) or case refund.made_by when 'institution' then (
        -- Taken of what was there, in as many entries as that needs: each is judged by post_ledger_entries, and all make its amount.
        select coalesce(sum(entry.amount_cents), 0) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> refund.amount_cents or original.institution_id is null and not exists (
        -- Over the installation's own rail nobody gives back by himself but for a contest.
        select from infraction_return as given where given.refund_id = refund.id and given.holder_id = refund.holder_id
    ) or exists (
        -- One name is one fact: what is a movement already is taken back with this refund, or is none.
        select from institution_account as account
        join movement on movement.holder_id in (account.house_id, refund.holder_id)
        where account.id = original.institution_id and movement.item_id = refund.return_id and not exists (
            select from movement as opposite
            where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
        )
    ) else (
        select count(*) from ledger_entry as entry
        where entry.transfer_id = refund.transfer_id and entry.holder_id = moved.holder_id and entry.refund_id = moved.id
    ) <> (
        select count(*) from allowed_posting as allowed
        where allowed.kind = 'refund' and allowed.direction = refund.flow and allowed.is_book = refund.is_book
            and allowed.status = refund.status and allowed.made_by = refund.made_by
    ) end or refund.status <> 'ERROR' and (
        original.settled_at is null or original.direction = refund.flow or original.is_book <> refund.is_book
        or coalesce(original.network_id, original.end_to_end_id) <> refund.original_end_to_end_id
        or original.amount_cents < refund.amount_cents
    ) or refund.is_book and not (
        select count(*) = 2 and bool_or(leg.flow = 'IN') and bool_or(leg.flow = 'OUT')
            and bool_and(leg.is_book and leg.amount_cents = refund.amount_cents and leg.status = refund.status)
        from refund as leg where leg.return_id = refund.return_id
    ) or (
        refund.flow = 'OUT' and not refund.is_book and case refund.status
            when 'PROCESSING' then (
                select ordered.resource_id = refund.id and ordered.holder_id = refund.holder_id and ordered.slot = refund.slot
                    and ordered.network_id is not distinct from refund.network_id
                from open_order as ordered where ordered.name = refund.return_id
            ) is not true
            else moved.before = 'PROCESSING'
                and (select count(*) from open_order as ordered where ordered.name = refund.return_id) > 0
        end
        -- One that was refused at once was never counted.
        or (refund.status <> 'ERROR' or moved.before <> 'NEW') and (
            select coalesce(sum(given.amount_cents) filter (where given.status = 'RETURNED'), 0) <> original.returned_cents
                or coalesce(sum(given.amount_cents) filter (where given.status = 'PROCESSING' and given.flow = 'OUT'), 0)
                    <> original.returning_cents
            from refund as given where given.transfer_id = refund.transfer_id and given.holder_id = refund.holder_id
        )
        or moved.before = 'NEW' and (
            refund.namesake <> 0
            or not refund.is_book and (
                select count(*) from refund as other
                where other.return_id = refund.return_id and other.amount_cents <> refund.amount_cents
            ) + (
                select count(*) from refund as other
                where other.network_id = refund.return_id
                    and (refund.flow = 'OUT' or other.amount_cents <> refund.amount_cents)
            ) > 0
        )
    ) and (
        select count(*) from offending_row as listed
        where listed.holder_id = refund.holder_id and (
            listed.table_name = 'refund' and listed.id = refund.id
            or listed.table_name = 'transfer' and listed.id = refund.transfer_id
        )
    ) = 0
    limit 1;
    if found then
        raise exception 'refund % of holder % cannot go from % to % with the entries, original and order that it has',
            misfit.id, misfit.holder_id, misfit.before, misfit.status
            using errcode = 'integrity_constraint_violation', constraint = 'a_refund_has_what_belongs_to_it';
    end if;
    return null;
end $$;

comment on table infraction is 'Pix that holders received and somebody contests, as the institution tells it.';
comment on column infraction.id is 'Counts up; unique together with the holder.';
comment on column infraction.holder_id is 'Who received the Pix.';
comment on column infraction.institution_id is 'The account at an institution; null is the installation''s own rail.';
comment on column infraction.name is 'The institution''s name of it, unique on its account; its block has it as its reference.';
comment on column infraction.transfer_id is 'The Pix.';
comment on column infraction.end_to_end_id is 'The Pix, by its name on the network.';
comment on column infraction.charge_id is 'The charge that the Pix has paid; null where it paid none.';
comment on column infraction.txid is 'The txid that the Pix names; null where it names none.';
comment on column infraction.charge_external_id is 'The holder''s own name of that charge.';
comment on column infraction.amount_cents is 'How much of the Pix is contested, in cents.';
comment on column infraction.taken_cents is 'How much the institution has given back because of it, in cents.';
comment on column infraction.reason is 'What the payer''s institution says: that the payer was deceived, or that the Pix went wrong.';
comment on column infraction.situation is 'What has happened, by the words of the directory of keys.';
comment on column infraction.words is 'What the payer says; null where the institution does not tell it.';
comment on column infraction.state is 'How far it is; released and taken are its ends.';
comment on column infraction.opened_at is 'When it was opened, by the institution''s clock.';
comment on column infraction.respond_by is 'Until when the holder can answer, by the institution''s clock.';
comment on column infraction.told_at is 'When the institution said what it says here: an older report changes no more than that.';
comment on column infraction.defence is 'What the holder answers; null while nothing is answered.';
comment on column infraction.defended_at is 'When the holder answered, in service time.';
comment on column infraction.defence_state is 'Whether the answer is on its way, the institution has it, or has refused it.';
comment on column infraction.defence_refusal is 'Why the institution refused the answer; null otherwise.';
comment on column infraction.send_at is 'When the answer is sent next, in service time; null while nothing is to be sent.';
comment on column infraction.remind_at is 'When the holder is reminded next, in service time; null where nothing is to be said.';
comment on column infraction.slot is 'The slot of work it belongs to, 0 to 255: its transfer''s.';
comment on column infraction.created_at is 'When it was written, in service time.';
comment on column infraction.modified_at is 'When it last changed, in service time.';
comment on table infraction_return is 'Refunds that the institution made because of an infraction; rows are never changed or deleted.';
comment on column infraction_return.refund_id is 'The refund.';
comment on column infraction_return.holder_id is 'Whose both are.';
comment on column infraction_return.infraction_id is 'The infraction.';
