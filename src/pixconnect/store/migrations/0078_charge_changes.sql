-- Charges at institutions are revised and removed there: what is wanted is durable before it is asked for, and asked about until it
-- is known. A charge may also be answered with a static code, while nobody knows whether it was opened there.

create table charge_change (
    id bigint generated always as identity primary key,
    charge_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null references institution_account,
    txid text collate "C" not null check (length(txid) between 26 and 35),
    kind text not null check (kind in ('revise', 'remove', 'withdraw')),
    contents text check (length(contents) <= 65536),
    removal text check (removal in ('REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP')),
    state text not null check (state in ('asked', 'done', 'refused', 'given_up', 'overtaken')),
    reason text check (length(reason) <= 1000),
    revision_there integer check (revision_there >= 0),
    asked_by text check (length(asked_by) <= 4096),
    calls_count integer not null check (calls_count >= 0),
    due_at timestamptz not null check (isfinite(due_at)),
    created_at timestamptz not null check (isfinite(created_at)),
    constraint change_is_of_a_charge foreign key (charge_id, holder_id) references charge,
    constraint a_revision_says_something check ((kind = 'revise') = (contents is not null)),
    constraint a_removal_says_whose_it_is check ((kind = 'remove') = (removal is not null))
);
-- One at a time: nobody could say which of two was done last.
create unique index charge_change_asked on charge_change (charge_id, holder_id) where state = 'asked';
create index charge_change_of_charge on charge_change (charge_id, holder_id, id);
create index charge_change_due on charge_change (institution_id, due_at) where state = 'asked';
grant select on charge_change to pixconnect_service, pixconnect_operator;
grant insert, update (state, reason, revision_there, calls_count, due_at) on charge_change to pixconnect_service;
grant insert, update (state, reason) on charge_change to pixconnect_operator;

create function keep_change_ended() returns trigger language plpgsql as $$
begin
    raise exception 'the change % of charge % is % and stays so', old.id, old.txid, old.state
        using errcode = 'integrity_constraint_violation', constraint = 'a_change_that_ended_stays_ended';
end $$;
create trigger keep_change_ended before update on charge_change
    for each row when (old.state <> 'asked') execute function keep_change_ended();

create function check_removed_there() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (
        select from charge_change
        where charge_id = new.id and holder_id = new.holder_id and kind = 'remove' and state = 'done'
    ) then
        raise exception 'charge % of holder % looks removed and can still be paid at its institution', new.id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_charge_is_removed_there_first';
    end if;
    return null;
end $$;
create trigger check_removed_there after update on charge for each row
    when (new.institution_id is not null and old.status <> new.status
        and new.status in ('REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP'))
    execute function check_removed_there();

alter table charge_opening add column reference text collate "C";
alter table charge_opening add constraint a_reference_fits_a_static_code
    check (reference is null or reference ~ '^[a-zA-Z0-9]{1,25}$' and state = 'opened') not valid;
grant update (reference) on charge_opening to pixconnect_service;

comment on table charge_change is 'What was wanted of charges at institutions after they were opened, and what became of it.';
comment on column charge_change.id is 'Our own name for it.';
comment on column charge_change.charge_id is 'The charge.';
comment on column charge_change.holder_id is 'The holder of the charge.';
comment on column charge_change.institution_id is 'The account at which the charge was opened.';
comment on column charge_change.txid is 'The charge''s.';
comment on column charge_change.kind is
    'Revise; remove; withdraw: remove what may have been opened there of a charge that has a static code.';
comment on column charge_change.contents is 'What a revised charge is to say, as JSON.';
comment on column charge_change.removal is 'What a removed charge becomes: its receiver''s act, or an operator''s.';
comment on column charge_change.state is
    'Asked until the institution''s answer is known; then done, refused, given up (nothing was sent), or overtaken by a payment.';
comment on column charge_change.reason is 'In the institution''s words, why it was refused, or what it said last.';
comment on column charge_change.revision_there is
    'The institution''s revision of the charge before it was asked; null until then.';
comment on column charge_change.asked_by is 'The caller, as JSON; null if an operator asked.';
comment on column charge_change.calls_count is 'How often somebody has begun to ask the institution.';
comment on column charge_change.due_at is 'When a worker asks next, in real time.';
comment on column charge_change.created_at is 'When it was asked for, in real time.';
comment on column charge_opening.reference is
    'The reference in the static code that the charge was answered with, by which payments name it; null without one.';
comment on column charge_opening.refusal_reason is 'In the institution''s words, why it was refused, or what it said last.';
