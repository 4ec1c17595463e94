-- What was adjusted can be undone when the case has got smaller than it since, one after the other; and nothing is adjusted on an
-- account that is closed.

-- As before, but an opposite may leave what is adjusted outside of the case, if it is nearer to it afterwards.
create or replace function check_adjustments() returns trigger
language plpgsql security definer set search_path = {schema}, pg_temp as $$
declare
    misfit record;
begin
    select made.id, made.holder_id into misfit from new_row as made
    join kept_case as ours on ours.id = made.case_id
    join holder on holder.id = made.holder_id
    left join adjustment as undone on undone.id = made.opposite_of and undone.holder_id = made.holder_id
    where ours.kind not in ('day', 'line_here') or ours.amount_cents is null
        or holder.institution_id is distinct from ours.institution_id
        or ours.ended_at is not null and made.opposite_of is null and made.kind <> 'written_off'
        or made.opposite_of is not null and (
            undone.opposite_of is not null or undone.account <> 'available' or undone.case_id <> made.case_id
            or undone.amount_cents <> made.amount_cents or undone.direction = made.direction
        )
        or (
            -- Twice the distance from the middle of what is allowed, which an opposite makes less.
            select sum(each.cents) not between least(ours.amount_cents, 0) and greatest(ours.amount_cents, 0) and (
                made.opposite_of is null or abs(2 * sum(each.cents) - ours.amount_cents)
                    >= abs(2 * sum(each.cents) filter (where each.id <> made.id) - ours.amount_cents)
            )
            from (
                select id, case direction when 'IN' then amount_cents else -amount_cents end as cents
                from adjustment where adjustment.case_id = made.case_id and account = 'available'
            ) as each
        )
        or (
            select sum(case each.direction when 'IN' then each.amount_cents else -each.amount_cents end)
                    filter (where each.account = 'settlement') not between least(sum(available), 0) and greatest(sum(available), 0)
            from adjustment as each
            cross join lateral (
                select case each.account when 'available' then 1 else 0 end
                    * case each.direction when 'IN' then each.amount_cents else -each.amount_cents end as available
            ) as signed
            where each.case_id = made.case_id and each.holder_id = made.holder_id
        )
        or (
            select count(*) from ledger_entry as entry
            join allowed_posting as allowed using (debit_account, credit_account)
            where entry.holder_id = made.holder_id and entry.id in (made.entry_id, made.deficit_entry_id)
                and entry.transfer_id is null and entry.refund_id is null
                and allowed.kind = 'adjustment' and allowed.direction = made.direction and allowed.status = made.account
                and entry.amount_cents = case entry.debit_account
                    when 'deficit' then made.deficit_cents else made.amount_cents - made.deficit_cents
                end
        ) <> (made.entry_id is not null)::int + (made.deficit_entry_id is not null)::int
    limit 1;
    if found then
        raise exception 'adjustment % of holder % is not within its case, or has not the entries that belong to it',
            misfit.id, misfit.holder_id
            using errcode = 'integrity_constraint_violation', constraint = 'an_adjustment_is_within_its_case';
    end if;
    return null;
end $$;

create trigger check_open after insert on adjustment for each row execute function check_account_is_open();
