-- What operators allow to leave over an account at an institution.

create function check_allowance() returns trigger language plpgsql security definer set search_path to 'pixconnect', 'pg_temp'
as $function$
declare
    wider constant text[] := array['own', 'known', 'all'];
begin
    if not exists (
            select from institution_account where id = new.institution_id and environment = 'counterpart'
        ) and not exists (
            select from proposal as confirmed
            where confirmed.institution_id = new.institution_id and act = 'allow' and confirmed_by = new.allowed_by
                and confirmed.xmin = pg_current_xact_id()::xid and confirmable_at >= proposed_at + interval '1 hour'
                and (new.refunds_day_cents <= old.refunds_day_cents
                    or (contents ->> 'refunds_day_cents')::bigint >= new.refunds_day_cents)
                and (new.transfer_cents <= old.transfer_cents
                    or (contents ->> 'transfer_cents')::bigint >= new.transfer_cents)
                and (new.transfers_day_cents <= old.transfers_day_cents
                    or (contents ->> 'transfers_day_cents')::bigint >= new.transfers_day_cents)
                and (array_position(wider, new.payees) <= array_position(wider, old.payees)
                    or array_position(wider, contents ->> 'payees') >= array_position(wider, new.payees))
        )
    then
        raise exception 'what may leave over account % is not raised by one person, nor at once', new.institution_id
            using errcode = 'integrity_constraint_violation', constraint = 'a_raise_is_confirmed_by_another';
    end if;
    return new;
end $function$;

create table institution_allowance (
    institution_id smallint not null,
    naming_key bytea default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) not null,
    refunds_day_cents bigint default 0 not null,
    allowed_by text,
    transfer_cents bigint default 0 not null,
    transfers_day_cents bigint default 0 not null,
    payees text default 'own' not null,
    constraint institution_allowance_pkey primary key (institution_id),
    constraint institution_allowance_allowed_by_check check (length(allowed_by) >= 1 and length(allowed_by) <= 255),
    constraint institution_allowance_payees_check check (payees in ('own', 'known', 'all')),
    constraint institution_allowance_refunds_day_cents_check check (refunds_day_cents >= 0 and refunds_day_cents <=
        999999999999),
    constraint institution_allowance_transfer_cents_check check (transfer_cents >= 0 and transfer_cents <= 999999999999),
    constraint institution_allowance_transfers_day_cents_check check (transfers_day_cents >= 0 and transfers_day_cents <=
        999999999999),
    constraint institution_allowance_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
comment on table institution_allowance is
    'The permitted outgoing money of each account at an institution, and the key that names it there.';
comment on column institution_allowance.institution_id is 'The account.';
comment on column institution_allowance.naming_key is
    'The key that derives our names at the institution: a restored database derives the same ones.';
comment on column institution_allowance.refunds_day_cents is
    'Maximum of refunds in a day of Sao Paulo, in cents; 0 is none.';
comment on column institution_allowance.allowed_by is 'The operator that set it last.';
comment on column institution_allowance.transfer_cents is 'Maximum of one transfer, in cents; 0 is none.';
comment on column institution_allowance.transfers_day_cents is
    'Maximum of transfers in a day of Sao Paulo, in cents; 0 is none.';
comment on column institution_allowance.payees is
    'The permitted payees: own is the account''s owner; known adds payees already paid over the account; all permits any payee.';
create trigger check_allowance before update of refunds_day_cents, transfer_cents, transfers_day_cents, payees on
    institution_allowance for each row when (new.refunds_day_cents > old.refunds_day_cents or new.transfer_cents >
    old.transfer_cents or new.transfers_day_cents > old.transfers_day_cents or array_position(array['own', 'known', 'all'],
    new.payees) > array_position(array['own', 'known', 'all'], old.payees)) execute function check_allowance();
grant update (refunds_day_cents, allowed_by, transfer_cents, transfers_day_cents, payees) on table institution_allowance to
    pixconnect_operator;
grant select on table institution_allowance to pixconnect_service;
