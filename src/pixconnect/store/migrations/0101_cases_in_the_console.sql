-- In the console too, operators note what they found about a case, close it, and propose an adjustment. What confirms a proposal
-- and posts the entries stays with the operators' role: no process that answers with pages has it.

grant insert (case_id, operator, note) on case_note to pixconnect_console;
grant update (closed_at, closed_by, close_reason) on kept_report to pixconnect_console;
grant insert, delete on institution_proposal to pixconnect_console;

create function refuse_console() returns trigger language plpgsql as $$
begin
    raise exception 'the console proposes adjustments, and nothing else of an account'
        using errcode = 'insufficient_privilege';
end $$;
create trigger console_only_adjusts before insert on institution_proposal for each row
    when (current_user = 'pixconnect_console' and (new.act <> 'adjust' or new.confirmed_at is not null))
    execute function refuse_console();
create trigger console_forgets_only_adjustments before delete on institution_proposal for each row
    when (current_user = 'pixconnect_console' and (old.act <> 'adjust' or old.confirmed_at is not null))
    execute function refuse_console();

-- Who proposes in the console is there by the name "console ana", and is ana all the same.
alter table institution_proposal drop constraint confirmed_by_another;
alter table institution_proposal add constraint confirmed_by_another check (
    regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ', '')
) not valid;
alter table adjustment drop constraint adjusted_by_two;
alter table adjustment add constraint adjusted_by_two check (
    regexp_replace(confirmed_by, '^console ', '') <> regexp_replace(proposed_by, '^console ', '')
) not valid;
