-- An institution tells whom a transfer to a key has reached only once it is paid. What was accepted stays as it was: who was paid
-- stands beside it.

create table settled_payee (
    transfer_id bigint not null,
    holder_id bigint not null,
    payee jsonb not null,
    told_at timestamptz not null check (isfinite(told_at)),
    primary key (transfer_id, holder_id),
    foreign key (transfer_id, holder_id) references transfer (id, holder_id)
);
grant select, insert on settled_payee to pixconnect_service;
create trigger settled_payee_is_append_only before delete or update or truncate on settled_payee
    for each statement execute function refuse_change();

create function check_settled_payee() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
begin
    if not exists (
        select from transfer
        where id = new.transfer_id and holder_id = new.holder_id and direction = 'OUT' and settled_at is not null
            and institution_id is not null
    ) then
        raise exception 'transfer % of holder % has reached nobody over an account', new.transfer_id, new.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'only_a_settled_transfer_has_reached_somebody';
    end if;
    return new;
end $$;
create trigger check_settled_payee before insert on settled_payee for each row execute function check_settled_payee();

comment on table settled_payee is
    'Whom transfers over accounts at institutions have reached, as it was told with their end; rows are never changed or deleted.';
comment on column settled_payee.transfer_id is 'The transfer.';
comment on column settled_payee.holder_id is 'Its holder.';
comment on column settled_payee.payee is 'What was known of the payee then, as JSON: of what is masked with its stars.';
comment on column settled_payee.told_at is 'When it was told, in service time.';
