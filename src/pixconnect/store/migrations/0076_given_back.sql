-- What an account gives back by itself, where its operator wants that: noted with the payment, made once a reading has shown that
-- nobody has returned it.

create table give_back (
    transfer_id bigint not null,
    holder_id bigint not null references holder,
    institution_id smallint not null references institution_account,
    state text not null check (state in ('waiting', 'made', 'not_made')),
    reason text check (length(reason) between 1 and 1000),
    due_at timestamptz not null check (isfinite(due_at)),
    created_at timestamptz not null check (isfinite(created_at)),
    primary key (transfer_id, holder_id),
    constraint what_was_not_made_says_why check ((state = 'not_made') = (reason is not null))
);
create index give_back_due on give_back (institution_id, due_at) where state = 'waiting';
grant select, insert, update (state, reason, due_at) on give_back to pixconnect_service;

create function check_give_back() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
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
end $$;
create trigger check_give_back before update on give_back for each row execute function check_give_back();

comment on table give_back is 'Received Pix that pay no charge, of accounts that give such back by themselves.';
comment on column give_back.transfer_id is 'The received Pix.';
comment on column give_back.holder_id is 'The holder who has it.';
comment on column give_back.institution_id is 'The account on which it came.';
comment on column give_back.state is 'Waiting for a reading of it; made: a refund is accepted; not made: it stays credited.';
comment on column give_back.reason is 'Why it was not made.';
comment on column give_back.due_at is 'When a worker looks at it next, in real time.';
comment on column give_back.created_at is 'When it came in, in real time.';
