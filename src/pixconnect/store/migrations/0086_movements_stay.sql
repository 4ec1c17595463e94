-- Each has its account: from now on nothing of a movement changes, as before.
drop trigger keep_all_but_account on movement;
drop function keep_all_but_account();
drop trigger movement_is_append_only on movement;
create trigger movement_is_append_only before delete or update or truncate on movement
    for each statement execute function refuse_change();
