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
create trigger check_allowance before update of refunds_day_cents, transfer_cents, transfers_day_cents, payees on
    institution_allowance for each row when (new.refunds_day_cents > old.refunds_day_cents or new.transfer_cents >
    old.transfer_cents or new.transfers_day_cents > old.transfers_day_cents or array_position(array['own', 'known', 'all'],
    new.payees) > array_position(array['own', 'known', 'all'], old.payees)) execute function check_allowance();
