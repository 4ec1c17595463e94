-- Requests to accounts at institutions, and data read from them.

create table institution_certificate (
    institution_id smallint not null,
    part text collate "C" not null,
    ends_at timestamp with time zone not null,
    constraint institution_certificate_pkey primary key (institution_id, part),
    constraint institution_certificate_ends_at_check check (isfinite(ends_at)),
    constraint institution_certificate_part_check check (part in ('receiving', 'sending', 'authority')),
    constraint institution_certificate_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
comment on table institution_certificate is 'When the certificates of accounts at institutions end.';
comment on column institution_certificate.institution_id is 'The account.';
comment on column institution_certificate.part is
    'The client certificate of the receiving credential or of the sending one, or who signs the institution''s own.';
comment on column institution_certificate.ends_at is
    'From when on it is not valid; of several in one file the first that ends.';
grant delete, insert, select, update on table institution_certificate to pixconnect_service;

create function check_opening_is_of_heir() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from holder where id = new.holder_id and successor_id is null for share;
    if not found then
        raise exception 'holder % was succeeded, and opens no charge', new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'who_was_succeeded_starts_nothing';
    end if;
    return null;
end $function$;

create function check_opening() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    perform from holder join institution_account as account on account.id = holder.institution_id
    where holder.id = new.holder_id and account.id = new.institution_id and account.state <> 'closed'
        and account.removed_at is null
    for share;
    if not found then
        raise exception 'charge % cannot open on the account %, which is closed, removed, or not that of its holder',
            new.txid, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_opens_on_its_holders_account';
    end if;
    return null;
end $function$;

create function note_digest() returns trigger language plpgsql
as $function$
begin
    new.wanted_digest := sha256(convert_to(to_jsonb(new) ->> tg_argv[0], 'UTF8'));
    return new;
end $function$;

create function keep_opening_ended() returns trigger language plpgsql
as $function$
begin
    -- The service may not write the wanted contents: they are emptied with the charge's texts. It may not call the function
    -- that empties them either, so this is checked only if nothing else changes.
    if to_jsonb(new) - 'wanted' = to_jsonb(old) - 'wanted' then
        if new.wanted = empty_contents(old.wanted, true) then
            return new;
        end if;
    end if;
    raise exception 'the opening of charge % is % and stays so', old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'an_opening_that_ended_stays_ended';
end $function$;
create trigger check_heir after insert on charge_opening for each row execute function check_opening_is_of_heir();
create trigger check_opening after insert on charge_opening for each row execute function check_opening();
create trigger note_wanted before insert on charge_opening for each row execute function note_digest('wanted');
create trigger keep_opening_ended before update on charge_opening for each row when (old.state <> 'opening') execute function
    keep_opening_ended();
grant insert, select, update (state, refusal_code, refusal_reason, calls_count, due_at, reference, network_txid, code_digest) on
    table charge_opening to pixconnect_service;

create function keep_change_ended() returns trigger language plpgsql
as $function$
begin
    if to_jsonb(new) - 'contents' = to_jsonb(old) - 'contents' then
        if new.contents = empty_contents(old.contents, true) then
            return new;
        end if;
    end if;
    raise exception 'the change % of charge % is % and stays so', old.id, old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'a_change_that_ended_stays_ended';
end $function$;
create trigger note_wanted before insert on charge_change for each row execute function note_digest('contents');
create trigger keep_change_ended before update on charge_change for each row when (old.state <> 'asked') execute function
    keep_change_ended();

create function hold_refund_days(account_ids smallint[], on_day date) returns table(institution_id smallint, left_cents bigint)
    language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
#variable_conflict use_column
begin
    insert into refund_day (institution_id, day, cents)
        select account_id, on_day, 0 from unnest(account_ids) as account_id order by account_id
        on conflict do nothing;
    return query
        select counted.institution_id, greatest(refunds_day_cents - counted.cents, 0)
        from refund_day as counted join institution_allowance using (institution_id)
        where counted.institution_id = any(account_ids) and counted.day = on_day
        order by counted.institution_id for update of counted;
end $function$;
grant execute on function hold_refund_days(account_ids smallint[], on_day date) to pixconnect_service;

create function hold_transfer_days(account_ids smallint[], on_day date) returns table(institution_id smallint, transfer_cents
    bigint, left_cents bigint, payees text, tax_id text) language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
#variable_conflict use_column
begin
    insert into transfer_day (institution_id, day, cents)
        select account_id, on_day, 0 from unnest(account_ids) as account_id order by account_id
        on conflict do nothing;
    return query
        select counted.institution_id, allowed.transfer_cents, greatest(transfers_day_cents - counted.cents, 0), allowed.payees,
            account.tax_id
        from transfer_day as counted join institution_allowance as allowed using (institution_id)
        join institution_account as account on account.id = counted.institution_id
        where counted.institution_id = any(account_ids) and counted.day = on_day
        order by counted.institution_id for update of counted;
end $function$;
grant execute on function hold_transfer_days(account_ids smallint[], on_day date) to pixconnect_service;

create table account_alarm (
    id bigint generated always as identity not null,
    institution_id smallint not null,
    kind text collate "C" not null,
    observation text not null,
    noticed_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    ended_by text,
    constraint account_alarm_pkey primary key (id),
    constraint account_alarm_ended_at_check check (isfinite(ended_at)),
    constraint account_alarm_ended_by_check check (length(ended_by) >= 1 and length(ended_by) <= 255),
    constraint account_alarm_kind_check check (kind in ('strays', 'drain')),
    constraint account_alarm_noticed_at_check check (isfinite(noticed_at)),
    constraint account_alarm_observation_check check (length(observation) >= 1 and length(observation) <= 1000),
    constraint an_alarm_is_ended_by_somebody check ((ended_at is null) = (ended_by is null)),
    constraint account_alarm_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table account_alarm is
    'Pauses of accounts at institutions because their outgoing money suggested theft; rows stay.';
comment on column account_alarm.id is 'Counts up.';
comment on column account_alarm.institution_id is 'The account.';
comment on column account_alarm.kind is
    'Strays: sends that this service did not order; drain: a large part of the balance left within an hour.';
comment on column account_alarm.observation is 'The observation, in words.';
comment on column account_alarm.noticed_at is 'When, in service time; earlier observations raise no further alarm.';
comment on column account_alarm.ended_at is
    'When an operator resumed the account, in real time; null while it is paused by it.';
comment on column account_alarm.ended_by is 'That operator.';
create index account_alarm_last on account_alarm (institution_id, noticed_at);
create unique index account_alarm_stands on account_alarm (institution_id) where ended_at is null;
create trigger account_alarm_is_append_only before delete or truncate on account_alarm for each statement execute function
    refuse_change();
grant update (ended_at, ended_by) on table account_alarm to pixconnect_operator;
grant select on table account_alarm to pixconnect_service;

create function raise_alarm(account_id smallint, what text, words text, at timestamp with time zone) returns boolean language
    plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    update institution_account set state = 'paused', revision = revision + 1
        where id = account_id and state = 'active' and removed_at is null;
    if not found then
        return false;
    end if;
    insert into account_alarm (institution_id, kind, observation, noticed_at) values (account_id, what, words, at)
        on conflict do nothing;
    return true;
end $function$;
grant execute on function raise_alarm(account_id smallint, what text, words text, at timestamp with time zone) to
    pixconnect_service;

create table return_name (
    asked_as text collate "C" not null,
    transfer_id bigint not null,
    holder_id bigint not null,
    refund_id bigint not null,
    constraint return_name_pkey primary key (asked_as, transfer_id, holder_id),
    constraint return_has_one_name unique (refund_id, holder_id),
    constraint return_name_asked_as_check check (length(asked_as) >= 1 and length(asked_as) <= 100),
    constraint return_name_refund_id_holder_id_fkey foreign key (refund_id, holder_id) references refund(id, holder_id)
);
comment on table return_name is
    'The request ids, at the institution, of returns with no known request here; each is assigned once per payment.';
comment on column return_name.asked_as is 'The id that the requester gave it at the institution.';
comment on column return_name.transfer_id is 'The payment that it returns.';
comment on column return_name.holder_id is 'The holder that had received it.';
comment on column return_name.refund_id is 'The refund that was recorded of it.';
grant insert, select on table return_name to pixconnect_service;

create function check_decided_step() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    if not exists (select from case_ending where case_ending.order_name = new.order_name) then
        raise exception 'the step of % is closed by a case, and nobody has said how it ended', new.order_name
            using errcode = 'integrity_constraint_violation', constraint = 'a_decided_step_has_its_case';
    end if;
    return new;
end $function$;

create function check_rail_step() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if tg_op = 'INSERT' then
        if new.may_be_done or new.code_there is not null or new.owner_tax_id is not null or not exists (
            select from open_order
            where name = new.order_name and holder_id = new.holder_id and institution_id = new.institution_id
                and (left(name, 1) = 'E') = (new.kind = 'order')
                and new.only_asked = exists (
                    select from database_loss
                    where case new.kind when 'order' then last_transfer_id else last_refund_id end >= resource_id
                )
        ) or new.only_asked and new.state <> 'calling'
            or not new.only_asked and (new.state not in ('new', 'minted') or new.called_at is not null)
        then
            raise exception 'the step of % begins before any call, with its order open at the account', new.order_name
                using errcode = 'integrity_constraint_violation', constraint = 'a_step_begins_with_its_order';
        end if;
        return new;
    end if;
    if (old.state, new.state) not in (
            ('new', 'minted'), ('new', 'closed'), ('minted', 'calling'), ('minted', 'closed'), ('calling', 'asked'),
            ('calling', 'closed'), ('asked', 'calling'), ('asked', 'closed')
        ) and ((old.state, new.state) <> ('calling', 'minted') or old.may_be_done)
            and (old.state <> new.state or old.only_asked or not new.only_asked)
            and ((old.state, new.state) <> ('new', 'calling') or old.only_asked or not new.only_asked)
            and ((old.state, new.state) <> ('asked', 'asked') or old.code_there is not null or new.code_there is null)
        or old.only_asked and (not new.only_asked or new.state not in ('asked', 'closed'))
        or old.may_be_done and not new.may_be_done
        or old.name_there is distinct from new.name_there and old.name_there is not null
        or old.code_there is distinct from new.code_there
            and (old.code_there is not null or not new.may_be_done and (old.state, new.state) <> ('new', 'minted'))
        or (old.owner_tax_id, old.owner_name) is distinct from (new.owner_tax_id, new.owner_name)
            and (old.state, new.state) <> ('new', 'minted')
        or old.called_at is distinct from new.called_at and old.called_at is not null and new.state <> 'minted'
        or new.outcome = 'never' and old.state not in ('new', 'minted')
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $function$;

create function hold_after_a_loss() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if exists (select from institution_account where id = new.institution_id and lost_at is not null) then
        return null;
    end if;
    return new;
end $function$;

create function keep_closed_step() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if to_jsonb(new) - '{payee,owner_tax_id,owner_name}'::text[] <> to_jsonb(old) - '{payee,owner_tax_id,owner_name}'::text[]
        or not exists (
            select from transfer
            join erased_text as erased on erased.kind = 'transfer' and erased.id = transfer.id
                and erased.holder_id = transfer.holder_id and part = 'all'
            where end_to_end_id = new.order_name and direction = 'OUT'
        )
    then
        raise exception 'the step of % cannot go from % to %', new.order_name, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'a_step_forgets_no_call';
    end if;
    return new;
end $function$;
create trigger check_decided before insert or update on rail_step for each row when (new.outcome = 'decided') execute function
    check_decided_step();
create trigger check_new_step before insert on rail_step for each row execute function check_rail_step();
create trigger check_step before update on rail_step for each row when (old.state <> 'closed' or new.state <> 'closed') execute
    function check_rail_step();
create trigger hold_after_a_loss before update of state on rail_step for each row when (new.state = 'calling' and old.state <>
    'calling' and not new.only_asked) execute function hold_after_a_loss();
create trigger keep_closed_step before update on rail_step for each row when (old.state = 'closed' and new.state = 'closed')
    execute function keep_closed_step();

create function check_give_back() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if old.state <> 'waiting' or new.state = 'made' and not exists (
        select from refund
        where refund.transfer_id = new.transfer_id and refund.holder_id = new.holder_id and flow = 'OUT'
            and left(external_id, 5) = 'auto:'
    ) then
        raise exception 'giving back % of holder % is % and cannot be %', new.transfer_id, new.holder_id, old.state, new.state
            using errcode = 'integrity_constraint_violation', constraint = 'what_is_given_back_is_a_refund';
    end if;
    return new;
end $function$;

create table give_back (
    transfer_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    state text not null,
    reason text,
    due_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    constraint give_back_pkey primary key (transfer_id, holder_id),
    constraint give_back_created_at_check check (isfinite(created_at)),
    constraint give_back_due_at_check check (isfinite(due_at)),
    constraint give_back_reason_check check (length(reason) >= 1 and length(reason) <= 1000),
    constraint give_back_state_check check (state in ('waiting', 'made', 'not_made')),
    constraint what_was_not_made_says_why check (case state when 'not_made' then reason is not null when 'made' then reason is
        null else true end),
    constraint give_back_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint give_back_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table give_back is 'Received Pix that pay no charge, of accounts that give such back by themselves.';
comment on column give_back.transfer_id is 'The received Pix.';
comment on column give_back.holder_id is 'The holder that has it.';
comment on column give_back.institution_id is 'The account on which it came.';
comment on column give_back.state is
    'Waiting for a reading of it, or until its reason has passed; made: a refund is accepted; not made: it stays credited.';
comment on column give_back.reason is 'Why it was not made, or could not be made when it was last tried.';
comment on column give_back.due_at is 'When a worker tries next, in real time.';
comment on column give_back.created_at is 'When it came in, in real time.';
create index give_back_due on give_back (institution_id, due_at) where state = 'waiting';
create trigger check_give_back before update on give_back for each row execute function check_give_back();
grant insert, select, update (state, reason, due_at) on table give_back to pixconnect_service;

create table institution_source (
    institution_id smallint not null,
    format text not null,
    is_own boolean not null,
    bank text not null,
    branch text not null,
    number text not null,
    account_type text not null,
    agreement text not null,
    confirmed_at timestamp with time zone not null,
    confirmed_by text not null,
    constraint institution_source_pkey primary key (institution_id, format, is_own),
    constraint institution_source_account_type_check check (length(account_type) <= 255),
    constraint institution_source_agreement_check check (length(agreement) <= 255),
    constraint institution_source_bank_check check (length(bank) <= 255),
    constraint institution_source_branch_check check (length(branch) <= 255),
    constraint institution_source_confirmed_at_check check (isfinite(confirmed_at)),
    constraint institution_source_confirmed_by_check check (length(confirmed_by) >= 1),
    constraint institution_source_format_check check (format ~ '^[a-z][a-z0-9.]{0,19}$' and format <> 'api'),
    constraint institution_source_number_check check (length(number) >= 1 and length(number) <= 255),
    constraint institution_source_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete
        cascade
);
comment on table institution_source is 'Forms of statement files by account; an operator has confirmed the first file of each.';
comment on column institution_source.institution_id is 'The account.';
comment on column institution_source.format is 'The form, by its reader.';
comment on column institution_source.is_own is 'The institution writes such files, and a worker fetches them.';
comment on column institution_source.bank is 'The bank in the first file; empty if missing. Later files must be of the same account.';
comment on column institution_source.branch is 'The branch, as the first file names it.';
comment on column institution_source.number is 'The account, as the first file names it.';
comment on column institution_source.account_type is 'Checking, savings, or as the first file writes it; empty if it does not.';
comment on column institution_source.agreement is 'The bank''s number of the customer''s contract, where the form has one.';
comment on column institution_source.confirmed_at is 'When an operator confirmed the first file, in service time.';
comment on column institution_source.confirmed_by is 'The operator that confirmed it.';
grant insert, select on table institution_source to pixconnect_service;

create table institution_file (
    institution_id smallint not null,
    digest bytea not null,
    name text not null,
    format text not null,
    is_own boolean not null,
    first_on date not null,
    last_on date not null,
    items_count integer not null,
    same_ids_count integer not null,
    other_ids_count integer not null,
    recorded_at timestamp with time zone not null,
    constraint institution_file_pkey primary key (institution_id, digest),
    constraint institution_file_check check (isfinite(last_on) and last_on >= first_on),
    constraint institution_file_digest_check check (length(digest) = 32),
    constraint institution_file_first_on_check check (isfinite(first_on)),
    constraint institution_file_ids_check check (same_ids_count >= 0 and other_ids_count >= 0),
    constraint institution_file_items_count_check check (items_count >= 0),
    constraint institution_file_name_check check (length(name) <= 255),
    constraint institution_file_recorded_at_check check (isfinite(recorded_at)),
    constraint a_file_is_of_a_confirmed_form foreign key (institution_id, format, is_own) references
        institution_source(institution_id, format, is_own) on delete cascade
);
comment on table institution_file is 'Statement files of institutions that were read.';
comment on column institution_file.institution_id is 'The account.';
comment on column institution_file.digest is 'SHA-256 of the file: a repeated file is ignored.';
comment on column institution_file.name is 'Its name on the machine of the operator who read it, or at the institution.';
comment on column institution_file.format is 'Which reader read it.';
comment on column institution_file.is_own is 'The institution wrote it, and a worker fetched it.';
comment on column institution_file.first_on is 'The first day that it speaks of, in Sao Paulo.';
comment on column institution_file.last_on is 'The last day that it speaks of.';
comment on column institution_file.items_count is 'How many lines of money it has.';
comment on column institution_file.same_ids_count is 'Known lines that it names by the same id.';
comment on column institution_file.other_ids_count is
    'Lines known before that it names by another id, and ids that two of its lines have.';
comment on column institution_file.recorded_at is 'When it was read, in service time.';
grant insert, select on table institution_file to pixconnect_service;

create function keep_joined() returns trigger language plpgsql
as $function$
begin
    if old.joined_kind = 'movement' and (new.joined_kind in ('transfer', 'refund', 'block') or new.waits = 'struck') and not new.is_reversal
        and exists (
            select from movement as opposite
            where opposite.institution_id = old.institution_id and opposite.opposite_of = old.joined_id
        )
    then
        return new;
    end if;
    -- A match by resemblance yields to a match by name.
    if old.joined_kind not in ('movement', 'block') and old.joined_by not in ('name', 'sum', 'words') and new.joined_kind is null then
        return new;
    end if;
    -- A debit of an order that has failed is a question, unless another line gives it back.
    if old.joined_kind in ('transfer', 'refund') and old.direction = 'OUT' and new.joined_kind is null and (exists (
            select from transfer
            where old.joined_kind = 'transfer' and id = old.joined_id::bigint and status in ('ERROR', 'CANCELLED')
        ) or exists (select from refund where old.joined_kind = 'refund' and id = old.joined_id::bigint and status = 'ERROR'))
        and not exists (
            select from institution_item as back where back.joined_kind = old.joined_kind and back.joined_id = old.joined_id
                and back.institution_id = old.institution_id and back.is_reversal
        )
    then
        return new;
    end if;
    -- A sum is separated only as ``check_answer`` permits.
    if old.joined_kind = 'sum' and new.joined_kind is null and new.waits = 'separated' then
        return new;
    end if;
    raise exception 'item % is joined to % %, and stays so', old.item_id, old.joined_kind, old.joined_id
        using errcode = 'integrity_constraint_violation', constraint = 'an_item_stays_joined';
end $function$;

create function check_answer() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if old.waits = 'struck' and new.waits is distinct from 'struck' or not exists (
        select from proposal as confirmed
        where institution_id = new.institution_id and act in ('answer', 'separate') and confirmed_by is not null
            and confirmed.xmin = pg_current_xact_id()::xid
            and case
                when act = 'separate' and old.waits = 'no_money' then
                    (contents ->> 'lines')::jsonb ->> new.item_id = 'aside' and new.joined_kind is null and new.waits = (
                        select reason from line_answer as given
                        where given.institution_id = new.institution_id and given.item_id = new.item_id
                        order by id desc limit 1
                    )
                when act = 'separate' then (contents ->> 'lines')::jsonb ->> new.item_id = old.joined_kind || ':' || old.joined_id
                    and new.joined_kind is null and old.joined_by <> 'name' and not old.is_reversal
                    and new.waits = case old.joined_kind when 'movement' then 'struck' else 'separated' end
                when new.waits = 'separated' then false
                when new.joined_kind = 'sum' then (contents ->> 'ours')::jsonb ? new.item_id
                when new.joined_by = 'answer' and new.joined_kind <> 'movement' then
                    (contents ->> 'ours')::jsonb ->> new.item_id = new.joined_kind || ':' || new.joined_id and exists (
                        select from transfer
                        where new.joined_kind = 'transfer' and id = new.joined_id::bigint and amount_cents = new.amount_cents
                            and case when new.is_reversal then direction <> new.direction and status in ('ERROR', 'CANCELLED')
                                else direction = new.direction and settled_at is not null end
                        union all select from refund
                        where new.joined_kind = 'refund' and id = new.joined_id::bigint and amount_cents = new.amount_cents
                            and case when new.is_reversal then flow <> new.direction and status = 'ERROR'
                                else flow = new.direction and settled_at is not null end
                    )
                else (contents ->> case new.waits when 'struck' then 'out' when 'no_money' then 'aside' else 'counts' end)::jsonb
                    ? new.item_id
            end
    ) and (new.joined_kind is not null or new.waits is distinct from 'no_money' or find_pattern(old) is null)
        and (new.joined_kind is distinct from 'movement' or old.joined_kind is not null or not counts_by_answer(old)) then
        raise exception 'two operators have not answered so about item % of account %', new.item_id, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_answer_is_confirmed_by_another';
    end if;
    return new;
end $function$;
create trigger institution_item_is_never_deleted before delete or truncate on institution_item for each statement execute
    function refuse_change();
create trigger names_are_only_added before update on institution_item for each row when (
    (new.end_to_end_id, new.return_id) is distinct from (old.end_to_end_id, old.return_id) and (old.joined_kind is not null
    or new.end_to_end_id is distinct from coalesce(old.end_to_end_id, new.end_to_end_id)
    or new.return_id is distinct from coalesce(old.return_id, new.return_id))) execute function refuse_change();
create trigger check_answer before update on institution_item for each row when (new.waits is distinct from old.waits and
    (old.waits in ('struck', 'no_money', 'separated') or new.waits in ('struck', 'no_money', 'separated')) or new.joined_by = 'answer' and new.joined_by is distinct from
    old.joined_by) execute function check_answer();
create trigger keep_joined before update on institution_item for each row when (old.joined_kind is not null and (old.joined_kind
    is distinct from new.joined_kind or old.joined_id is distinct from new.joined_id or old.is_reversal is distinct from
    new.is_reversal)) execute function keep_joined();

create function taken_of_block(asked_id bigint) returns bigint language sql stable set search_path to 'pixconnect', 'pg_temp'
as $function$
    select (
        select coalesce(sum(step.amount_cents), 0)
        from block_step as step join block on block.id = step.block_id
        left join infraction_return as given on given.refund_id = step.refund_id and given.holder_id = step.holder_id
        left join infraction as own on own.id = infraction_id and own.holder_id = given.holder_id and own.name = reference
        where step.block_id = asked_id and step.kind = 'taken' and own.id is null
    )::bigint + coalesce((
        -- The block's own contest's returns in full: perhaps less of them was covered here.
        select told.taken_cents from block join infraction as told on told.transfer_id = block.transfer_id
            and told.holder_id = block.holder_id and told.name = reference
        where block.id = asked_id
    ), 0)
$function$;

create function check_reserved_line() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from institution_item as item join institution_account as account on account.id = item.institution_id
    left join block as debited on debited.id = case item.joined_kind when 'block' then item.joined_id::bigint end
    where item.institution_id = new.institution_id and item.item_id = new.line_id and item.direction = 'OUT'
        and new.holder_id = coalesce(debited.holder_id, account.house_id) and new.wanted_cents = case
            when item.joined_kind is null then item.amount_cents
            -- What the debits of a block took beyond what it holds, and nobody got back.
            when item.joined_kind = 'block' then (
                select sum(case when is_reversal then -amount_cents else amount_cents end) from institution_item as part
                where joined_kind = 'block' and part.joined_id = item.joined_id and part.institution_id = item.institution_id
            ) - debited.held_cents - taken_of_block(debited.id)
        end;
    if not found then
        raise exception 'nothing is reserved for line % of account %', new.line_id, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_waiting_debit_reserves_its_sum';
    end if;
    return null;
end $function$;
create trigger check_line after insert on block for each row when (new.line_id is not null) execute function
    check_reserved_line();

create function check_posted_line() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from block
    where holder_id = new.holder_id and state = 'open' and institution_id = new.institution_id and (line_id = new.item_id
        -- The name of a movement whose line has a longer one.
        or length(line_id) > 64 and encode(sha256(convert_to(line_id, 'UTF8')), 'hex') = new.item_id
        or 'kept:' || left(encode(sha256(convert_to(line_id, 'UTF8')), 'hex'), 48) = new.item_id);
    if found then
        raise exception 'movement % of holder % is reserved for as a line that waits', new.item_id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_posted_line_reserves_nothing';
    end if;
    return null;
end $function$;
create trigger check_line after insert on movement for each row when (new.institution_id is not null) execute function
    check_posted_line();

create function check_debited_block() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
declare
    debited bigint;
    credited bigint;
begin
    -- Lines join in parts: two sessions must not both find room for theirs.
    perform from block where id = new.joined_id::bigint for no key update;
    select coalesce(sum(amount_cents) filter (where not is_reversal), 0), coalesce(sum(amount_cents) filter (where is_reversal), 0)
    into debited, credited from institution_item
    where institution_id = new.institution_id and joined_kind = 'block' and joined_id = new.joined_id;
    perform from block cross join lateral (
        select taken_of_block(block.id) as taken,
            sum(amount_cents) filter (where kind = 'covered' and step.holder_id = block.holder_id) as covered, (
                select amount_cents from infraction as told where told.transfer_id = block.transfer_id
                    and told.holder_id = block.holder_id and told.name = reference
            ) as contested
        from block_step as step where step.block_id = block.id
    ) as moved
    where id = new.joined_id::bigint and institution_id = new.institution_id and line_id is null
        and new.direction = case when new.is_reversal then 'IN' else 'OUT' end
        and case
            when new.is_reversal then credited <= debited - taken
            else debited <= greatest(case state when 'open' then held_cents + taken + credited else covered end, contested)
        end;
    if not found then
        raise exception 'item % is no money of block %', new.item_id, new.joined_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_debited_block_is_its_line';
    end if;
    return null;
end $function$;
create trigger check_debited_block after update on institution_item for each row when (new.joined_kind = 'block' and
    new.joined_kind is distinct from old.joined_kind) execute function check_debited_block();

create table own_investment (
    institution_id smallint not null,
    item_id text collate "C" not null,
    direction text not null,
    principal_cents bigint not null,
    constraint own_investment_pkey primary key (institution_id, item_id),
    constraint own_investment_direction_check check (direction in ('IN', 'OUT')),
    constraint own_investment_principal_cents_check check (principal_cents >= 1 and principal_cents <= 999999999999),
    constraint own_investment_item_fkey foreign key (institution_id, item_id) references institution_item(institution_id,
        item_id)
);
comment on table own_investment is
    'Lines that move money between an account and its own investment; the invested money stays its holders''. Rows are never changed.';
comment on column own_investment.institution_id is 'The account.';
comment on column own_investment.item_id is 'The line.';
comment on column own_investment.direction is 'The line''s: OUT was applied, IN was redeemed.';
comment on column own_investment.principal_cents is
    'The principal part of the line, in cents: a redemption''s yield beyond it is a movement.';

create function check_own_investment() returns trigger language plpgsql security definer set search_path to 'pixconnect',
    'pg_temp'
as $function$
begin
    perform from institution_item as item
    join own_investment as own on own.institution_id = item.institution_id and own.item_id = item.item_id
    join institution_account as account on account.id = item.institution_id
    left join movement as yield on yield.holder_id = account.house_id and yield.direction = 'IN' and yield.item_id
        = 'yield:' || left(encode(sha256(convert_to(item.item_id, 'UTF8')), 'hex'), 48)
    where item.institution_id = new.institution_id and item.item_id = new.item_id and item.joined_kind = 'investment'
        and item.joined_id = item.item_id and item.direction = own.direction
        and item.amount_cents = own.principal_cents + coalesce(yield.amount_cents, 0);
    if not found then
        raise exception 'line % of account % is no own investment as it is noted', new.item_id, new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_own_investment_is_its_line';
    end if;
    perform from own_investment where institution_id = new.institution_id
    having sum(case direction when 'OUT' then principal_cents else -principal_cents end) < 0;
    if found then
        raise exception 'more was redeemed of account % than was invested', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'no_more_is_redeemed_than_was_applied';
    end if;
    return null;
end $function$;
create trigger own_investment_never_changes before update or delete or truncate on own_investment for each statement execute
    function refuse_change();
create constraint trigger check_new after insert on own_investment deferrable initially deferred for each row execute function
    check_own_investment();
create constraint trigger check_own_investment after update on institution_item deferrable initially deferred for each row when
    (new.joined_kind = 'investment' and new.joined_kind is distinct from old.joined_kind) execute function
    check_own_investment();
grant insert, select on table own_investment to pixconnect_service;

create function check_sum() returns trigger language plpgsql
as $function$
declare
    item institution_item;
begin
    select * into item from institution_item where institution_id = new.institution_id and item_id = new.item_id;
    if item.joined_kind is distinct from 'sum' and not exists (
        select from institution_item_part as part
        where part.institution_id = item.institution_id and part.item_id = item.item_id
    ) or item.joined_kind = 'sum' and coalesce((
        select count(*) > 1 and count(fact.amount_cents) = count(*) and sum(fact.amount_cents) = item.amount_cents and bool_and(
            fact.institution_id = item.institution_id and fact.direction = item.direction and fact.settled_at is not null
        )
        from institution_item_part as part left join lateral (
            select institution_id, direction, amount_cents, settled_at from transfer
            where part.kind = 'transfer' and id = part.record_id
            union all
            select institution_id, flow, refund.amount_cents, refund.settled_at
            from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
            where part.kind = 'refund' and refund.id = part.record_id
        ) as fact on true
        where part.institution_id = item.institution_id and part.item_id = item.item_id
    ), false) then
        return null;
    end if;
    raise exception 'item % is not the sum of its parts', item.item_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_sum_is_that_of_its_parts';
end $function$;

create function check_part() returns trigger language plpgsql
as $function$
begin
    if tg_table_name = 'institution_item_part' then
        perform from institution_item where joined_kind = new.kind and joined_id = new.record_id::text
            and institution_id = new.institution_id and not is_reversal;
    else
        perform from institution_item_part where institution_id = new.institution_id and kind = new.joined_kind
            and record_id = new.joined_id::bigint;
    end if;
    if not found then
        return new;
    end if;
    raise exception 'a part of item % is another item', new.item_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_part_is_one_item';
end $function$;

create function keep_part() returns trigger language plpgsql
as $function$
begin
    perform from institution_item where institution_id = old.institution_id and item_id = old.item_id and joined_kind = 'sum';
    if not found then
        return old;
    end if;
    raise exception 'item % is the sum of its parts until two operators separate it', old.item_id
        using errcode = 'integrity_constraint_violation', constraint = 'a_part_goes_with_its_sum';
end $function$;

create table institution_item_part (
    institution_id smallint not null,
    item_id text collate "C" not null,
    kind text not null,
    record_id bigint not null,
    constraint institution_item_part_pkey primary key (institution_id, kind, record_id),
    constraint institution_item_part_kind_check check (kind in ('transfer', 'refund')),
    constraint institution_item_part_item_fkey foreign key (institution_id, item_id) references institution_item(institution_id,
        item_id)
);
comment on table institution_item_part is 'The transfers and refunds that a line of a statement sums: banks write one line for many.';
comment on column institution_item_part.institution_id is 'The account.';
comment on column institution_item_part.item_id is 'The line.';
comment on column institution_item_part.kind is 'Whether the part is a transfer or a refund.';
comment on column institution_item_part.record_id is 'Its id.';
create index institution_item_part_item on institution_item_part (institution_id, item_id);
create trigger check_part before insert on institution_item_part for each row execute function check_part();
create trigger check_part before update on institution_item for each row when (new.joined_kind in ('transfer', 'refund') and
    not new.is_reversal and old.joined_kind is null) execute function check_part();
create constraint trigger check_sum after insert on institution_item_part deferrable initially deferred for each row execute
    function check_sum();
create constraint trigger check_sum after update on institution_item deferrable initially deferred for each row when
    ('sum' in (old.joined_kind, new.joined_kind)) execute function check_sum();
create trigger institution_item_part_never_changes before update or truncate on institution_item_part for each statement
    execute function refuse_change();
create trigger keep_part before delete on institution_item_part for each row execute function keep_part();
grant delete, insert, select on table institution_item_part to pixconnect_service;

create table institution_day (
    institution_id smallint not null,
    day date not null,
    opening_cents bigint,
    closing_cents bigint,
    read_at timestamp with time zone,
    source text not null,
    state text default 'open' not null,
    disagreements_count integer default 0 not null,
    second_closing_cents bigint,
    closed_at timestamp with time zone,
    reopened_at timestamp with time zone,
    constraint institution_day_pkey primary key (institution_id, day),
    constraint institution_day_closed_at_check check (isfinite(closed_at)),
    constraint institution_day_day_check check (isfinite(day)),
    constraint institution_day_disagreements_count_check check (disagreements_count >= 0),
    constraint institution_day_read_at_check check (isfinite(read_at)),
    constraint institution_day_reopened_at_check check (isfinite(reopened_at)),
    constraint institution_day_source_check check (source ~ '^[a-z][a-z0-9.]{0,19}$'),
    constraint institution_day_state_check check (state in ('open', 'provisional', 'closed', 'closed_with_cases')),
    constraint institution_day_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table institution_day is
    'Days of accounts at institutions: their balances as reported, and whether they are closed.';
comment on column institution_day.institution_id is 'The account.';
comment on column institution_day.day is 'The day in Sao Paulo.';
comment on column institution_day.opening_cents is 'The balance before the day, from a statement; null if none reported it.';
comment on column institution_day.closing_cents is 'The balance at the day''s end, from a statement; null if none reported it.';
comment on column institution_day.read_at is
    'When a statement last covered the whole day, in service time: the time at which its file was made or first read.';
comment on column institution_day.source is
    'The format that first covered the whole day; others are compared with it, since two formats name one line differently.';
comment on column institution_day.state is 'Open, provisional, closed, or closed with cases, as last judged.';
comment on column institution_day.disagreements_count is
    'Recorded lines that a second format lacks, and balances that it reports differently.';
comment on column institution_day.second_closing_cents is 'The closing balance according to a second format.';
comment on column institution_day.closed_at is 'When it was last closed, in service time.';
comment on column institution_day.reopened_at is 'When it was last opened again, in service time.';
grant insert, select, update (opening_cents, closing_cents, read_at, source, state, disagreements_count, second_closing_cents,
    closed_at, reopened_at) on table institution_day to pixconnect_service;

create table answer_pattern (
    id bigint generated always as identity not null,
    institution_id smallint not null,
    reason text collate "C" not null,
    direction text not null,
    form text collate "C" not null,
    proposal_id bigint not null,
    since timestamp with time zone not null,
    revoked_at timestamp with time zone,
    revoked_by text,
    constraint answer_pattern_pkey primary key (id),
    constraint answer_pattern_direction_check check (direction in ('IN', 'OUT')),
    constraint answer_pattern_form_check check (length(form) >= 1 and length(form) <= 255),
    constraint answer_pattern_revoked_at_check check (isfinite(revoked_at)),
    constraint answer_pattern_revoked_by_check check (length(revoked_by) >= 1 and length(revoked_by) <= 255),
    constraint answer_pattern_since_check check (isfinite(since)),
    constraint a_pattern_is_revoked_by_somebody check ((revoked_at is null) = (revoked_by is null)),
    constraint a_pattern_moves_nothing check (reason in ('perhaps_balance', 'perhaps_known', 'contradicts')),
    constraint answer_pattern_institution_id_fkey foreign key (institution_id) references institution_account(id),
    constraint answer_pattern_proposal_id_fkey foreign key (proposal_id) references proposal(id)
);
comment on table answer_pattern is
    'Lines of statements that two operators had remembered to set aside: a line of the pattern is no question.';
comment on column answer_pattern.id is 'Counts up.';
comment on column answer_pattern.institution_id is 'The account.';
comment on column answer_pattern.reason is 'Why its lines wait.';
comment on column answer_pattern.direction is 'The direction of its lines: IN or OUT.';
comment on column answer_pattern.form is 'The text of its lines, with # for each number.';
comment on column answer_pattern.proposal_id is 'The confirmed proposal that made it.';
comment on column answer_pattern.since is 'When that was confirmed, in real time.';
comment on column answer_pattern.revoked_at is 'Since when it sets nothing aside any more, in real time; null while it does.';
comment on column answer_pattern.revoked_by is 'The operator who revoked it, or confirmed another answer about one of its lines.';
create unique index answer_pattern_stands on answer_pattern (institution_id, reason, direction, form) where revoked_at is null;
create trigger answer_pattern_is_never_deleted before delete or truncate on answer_pattern for each statement execute function
    refuse_change();
create trigger keep_pattern before update on answer_pattern for each row when (old.revoked_at is not null or new.revoked_at is
    null or to_jsonb(new) - '{revoked_at,revoked_by}'::text[] <> to_jsonb(old) - '{revoked_at,revoked_by}'::text[]) execute
    function refuse_row('a_pattern_is_revoked_once', 'pattern %s is only revoked, and stays so', 'id');
grant insert (institution_id, reason, direction, form, proposal_id, since), update (revoked_at, revoked_by) on table
    answer_pattern to pixconnect_operator;
grant update (revoked_at, revoked_by) on table answer_pattern to pixconnect_console;
grant select on table answer_pattern to pixconnect_service;

create table line_answer (
    id bigint generated always as identity not null,
    institution_id smallint not null,
    item_id text collate "C" not null,
    reason text collate "C" not null,
    answer text not null,
    proposal_id bigint,
    pattern_id bigint,
    answered_at timestamp with time zone not null,
    constraint line_answer_pkey primary key (id),
    constraint line_answer_answer_check check (answer in ('counts', 'ours', 'aside', 'out', 'taken_back')),
    constraint line_answer_answered_at_check check (isfinite(answered_at)),
    constraint people_or_a_pattern_answer check (num_nonnulls(proposal_id, pattern_id) = 1),
    constraint line_answer_item_fkey foreign key (institution_id, item_id) references institution_item(institution_id, item_id),
    constraint line_answer_pattern_id_fkey foreign key (pattern_id) references answer_pattern(id),
    constraint line_answer_proposal_id_fkey foreign key (proposal_id) references proposal(id)
);
comment on table line_answer is 'Each answer about a line of a statement. Rows are never changed.';
comment on column line_answer.id is 'Counts up.';
comment on column line_answer.institution_id is 'The account.';
comment on column line_answer.item_id is 'The line.';
comment on column line_answer.reason is 'Why the line waited.';
comment on column line_answer.answer is 'The answer, or that two operators took the one before back.';
comment on column line_answer.proposal_id is 'The confirmed proposal with the answer; null if a pattern answered.';
comment on column line_answer.pattern_id is 'The pattern that answered; null if two operators did.';
comment on column line_answer.answered_at is 'When, in real time.';
create index line_answer_item on line_answer (institution_id, item_id);
create index line_answer_pattern on line_answer (pattern_id) where pattern_id is not null;
create trigger line_answer_never_changes before update or delete or truncate on line_answer for each statement execute function
    refuse_change();
grant select on table line_answer to pixconnect_service;

create function counts_by_answer(line institution_item) returns boolean language sql stable set search_path to 'pixconnect', 'pg_temp'
as $function$
    select coalesce((
        select answer = 'counts' from line_answer as given
        where given.institution_id = line.institution_id and given.item_id = line.item_id order by id desc limit 1
    ), false)
$function$;
grant execute on function counts_by_answer(line institution_item) to pixconnect_service;

-- The text of a line of the bank without its numbers; null for a line that may name a Pix, a party or an account.
create function read_line_form(line institution_item) returns text language sql immutable set search_path to 'pixconnect', 'pg_temp'
as $function$
    select regexp_replace(lower(btrim(regexp_replace(line.text, '\s+', ' ', 'g')) collate "C"), '[0-9]+', '#', 'g')
    where num_nonnulls(line.end_to_end_id, line.return_id, line.txid, line.tax_id, line.parts) = 0
        and line.kind not in ('pix', 'refund') and coalesce(line.counterparty, line.text) = line.text
        and line.text ~* '[a-z]' and regexp_replace(line.text, '[./-]', '', 'g') !~ '[0-9]{9}'
$function$;
grant execute on function read_line_form(line institution_item) to pixconnect_service;

-- Lines that two operators have set aside, by their forms, since they last answered otherwise.
create function list_rehearsals(account_id smallint) returns table(reason text, direction text, form text, began_at timestamp with
    time zone, last_at timestamp with time zone, days_count integer, item_id text)
    language sql stable set search_path to 'pixconnect', 'pg_temp'
as $function$
    with said as (
        select given.id, given.reason, item.direction, read_line_form(item) as form, given.answer, given.answered_at, item.item_id
        from line_answer as given join institution_item as item using (institution_id, item_id)
        where given.institution_id = account_id and given.proposal_id is not null
            and given.reason in ('perhaps_balance', 'perhaps_known', 'contradicts')
    ), streak as (
        select *, max(id) filter (where answer <> 'aside') over (partition by reason, direction, form) as other_id from said
    )
    select reason, direction, form, min(answered_at), max(answered_at),
        count(distinct (answered_at at time zone 'America/Sao_Paulo')::date)::integer, (array_agg(item_id order by id desc))[1]
    from streak
    where id > coalesce(other_id, 0) and form is not null and not exists (
            select from answer_pattern as ended
            where ended.institution_id = account_id
                and (ended.reason, ended.direction, ended.form) = (streak.reason, streak.direction, streak.form)
                and ended.revoked_at >= answered_at
        )
    group by 1, 2, 3
$function$;
grant execute on function list_rehearsals(account_id smallint) to pixconnect_service;

-- The day's two balances must agree without the line. Only a credit that may be a balance needs no balances: without it, the
-- account has less to spend, and not more.
create function find_pattern(line institution_item) returns bigint language sql stable set search_path to 'pixconnect', 'pg_temp'
as $function$
    select pattern.id
    from answer_pattern as pattern
    where pattern.institution_id = line.institution_id and pattern.revoked_at is null and line.joined_kind is null
        and (pattern.reason, pattern.direction, pattern.form) = (line.waits, line.direction, read_line_form(line))
        and coalesce((
            select disagreements_count = 0 and coalesce(second_closing_cents, closing_cents) = closing_cents
                and closing_cents - opening_cents = coalesce((
                    select sum(case direction when 'IN' then amount_cents else -amount_cents end)
                    from institution_item as other
                    where other.institution_id = told.institution_id and other.day = told.day and (other.waits is null
                        or other.waits in ('perhaps_struck', 'perhaps_text', 'separated', 'before_opening', 'opening_day',
                            'not_yet_read', 'order_unknown', 'could_be_ours', 'day_not_over'))
                ), 0)
            from institution_day as told
            where told.institution_id = line.institution_id and told.day = line.day and told.read_at is not null
                and closing_cents is not null and opening_cents is not null
        ), line.waits = 'perhaps_balance' and line.direction = 'IN')
$function$;
grant execute on function find_pattern(line institution_item) to pixconnect_service;

create function check_pattern() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
begin
    if new.revoked_at is null and exists (
        select from proposal as confirmed
        join list_rehearsals(new.institution_id) as rehearsal
            on (rehearsal.reason, rehearsal.direction, rehearsal.form) = (new.reason, new.direction, new.form)
        where confirmed.id = new.proposal_id and confirmed.institution_id = new.institution_id and act = 'remember'
            and confirmed_by is not null and confirmed.xmin = pg_current_xact_id()::xid and done_at = new.since
            and (contents ->> 'reason', contents ->> 'direction', contents ->> 'form') = (new.reason, new.direction, new.form)
            and days_count >= 3 and last_at - began_at >= interval '90 days'
    ) then
        return new;
    end if;
    raise exception 'lines % are not rehearsed, or two operators have not confirmed it', new.form
        using errcode = 'integrity_constraint_violation', constraint = 'a_pattern_was_rehearsed';
end $function$;
create trigger check_pattern before insert on answer_pattern for each row execute function check_pattern();

create function note_answer() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    confirmed proposal;
    matched_id bigint;
    ended answer_pattern;
    waited text := old.waits;
    said text;
    account_name text := (select name from institution_account where id = new.institution_id);
begin
    select * into confirmed from proposal
    where institution_id = new.institution_id and act in ('answer', 'separate') and confirmed_by is not null
        and proposal.xmin = pg_current_xact_id()::xid;
    if confirmed.act = 'separate' then
        said := 'taken_back';
        select reason into waited from line_answer as before
            where before.institution_id = new.institution_id and before.item_id = new.item_id order by id desc limit 1;
    elsif confirmed.act = 'answer' then
        select key into said from jsonb_each_text(confirmed.contents)
            where key in ('counts', 'ours', 'aside', 'out') and value::jsonb ? new.item_id;
    elsif new.waits = 'no_money' then
        matched_id := find_pattern(old);
        said := case when matched_id is not null then 'aside' end;
    end if;
    if said is null or waited is null then
        return null;
    end if;
    insert into line_answer (institution_id, item_id, reason, answer, proposal_id, pattern_id, answered_at) values (
        new.institution_id, new.item_id, waited, said, confirmed.id, matched_id,
        coalesce(confirmed.done_at, clock_timestamp())
    );
    if matched_id is not null then
        insert into audit (operator, verb, subject, after) values (
            'pattern ' || matched_id, 'case answer', 'institution ' || account_name,
            jsonb_build_object(said, new.item_id, 'pattern', matched_id, 'amount_cents', new.amount_cents)
        );
        return null;
    end if;
    update answer_pattern as pattern set revoked_at = confirmed.done_at, revoked_by = confirmed.confirmed_by
        where institution_id = new.institution_id and (reason, direction, form) = (waited, new.direction, read_line_form(new))
            and said <> 'aside' and revoked_at is null
        returning * into ended;
    if ended.id is not null then
        insert into audit (operator, verb, subject, before)
            values (confirmed.confirmed_by, 'case forget', 'institution ' || account_name, to_jsonb(ended));
    end if;
    return null;
end $function$;
create trigger note_answer after update on institution_item for each row when (new.waits is distinct from old.waits and (
    'no_money' in (old.waits, new.waits) or new.waits in ('separated', 'struck') or new.joined_by in ('answer', 'sum')
    or old.waits = 'opening_day'
    or old.waits in ('perhaps_balance', 'perhaps_known', 'contradicts', 'changed', 'perhaps_back') and new.waits is null))
    execute function note_answer();

create table institution_callback (
    institution_id smallint not null,
    digest bytea not null,
    secret_sealed bytea not null,
    made_at timestamp with time zone not null,
    constraint institution_callback_pkey primary key (institution_id),
    constraint institution_callback_digest_check check (length(digest) = 32),
    constraint institution_callback_made_at_check check (isfinite(made_at)),
    constraint institution_callback_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
comment on table institution_callback is
    'The secret in the callback address that an institution calls about incoming money on an account.';
comment on column institution_callback.institution_id is 'The account.';
comment on column institution_callback.digest is 'SHA-256 of the secret, with which that of each call is compared.';
comment on column institution_callback.secret_sealed is
    'The secret itself, sealed, so that the address can be registered again.';
comment on column institution_callback.made_at is 'When the secret was made; real time.';
grant delete, insert, update on table institution_callback to pixconnect_operator;
grant select on table institution_callback to pixconnect_service;

create table institution_webhook_before (
    institution_id smallint not null,
    key text not null,
    url text not null,
    kept_at timestamp with time zone not null,
    constraint institution_webhook_before_pkey primary key (institution_id, key),
    constraint institution_webhook_before_kept_at_check check (isfinite(kept_at)),
    constraint institution_webhook_before_key_check check (length(key) >= 1 and length(key) <= 77),
    constraint institution_webhook_before_url_check check (length(url) >= 1 and length(url) <= 2048),
    constraint institution_webhook_before_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
comment on table institution_webhook_before is 'The webhook that an institution had for a key before ours replaced it.';
comment on column institution_webhook_before.institution_id is 'The account.';
comment on column institution_webhook_before.key is 'The Pix key.';
comment on column institution_webhook_before.url is 'The earlier address.';
comment on column institution_webhook_before.kept_at is 'When ours replaced it, in real time.';
grant delete, insert, update on table institution_webhook_before to pixconnect_operator;
grant select on table institution_webhook_before to pixconnect_service;

create table institution_day_file (
    institution_id smallint not null,
    day date not null,
    name text not null,
    asked_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    failure text,
    constraint institution_day_file_pkey primary key (institution_id, day),
    constraint institution_day_file_asked_at_check check (isfinite(asked_at)),
    constraint institution_day_file_day_check check (isfinite(day)),
    constraint institution_day_file_ended_at_check check (isfinite(ended_at)),
    constraint institution_day_file_failure_check check (length(failure) >= 1 and length(failure) <= 300),
    constraint institution_day_file_name_check check (length(name) >= 1 and length(name) <= 100),
    constraint what_failed_has_ended check (failure is null or ended_at is not null),
    constraint institution_day_file_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
comment on table institution_day_file is 'Files of past days requested from institutions.';
comment on column institution_day_file.institution_id is 'The account.';
comment on column institution_day_file.day is 'The day in Sao Paulo that the file is of.';
comment on column institution_day_file.name is 'The name for fetching the last requested file.';
comment on column institution_day_file.asked_at is 'When it was requested, in real time.';
comment on column institution_day_file.ended_at is 'When it was read or refused, in real time; null while it is awaited.';
comment on column institution_day_file.failure is 'Why it was refused; null if it was read.';
grant insert, select, update (name, asked_at, ended_at, failure) on table institution_day_file to pixconnect_service;
