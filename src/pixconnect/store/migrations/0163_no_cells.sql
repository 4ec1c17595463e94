-- Cells go: an installation has one database.

-- First of all, so that nothing is changed where holders are in several: `pixconnect migrate` refuses that before it comes here.
do $$
begin
    if exists (select from cell) or exists (select from installation where cell <> 0) then
        raise exception 'this home has more than one cell, which pixconnect no longer supports'
            using hint = 'Keep the version that made it, or make a new home with `PIXCONNECT_HOME=FOLDER pixconnect run`.';
    end if;
end $$;

drop trigger key_is_of_one_cell on pix_key;
drop trigger account_is_of_one_cell on holder;
drop trigger institution_is_of_one_cell on institution_account;
drop trigger cell_is_kept on installation;
drop trigger cell_identity_is_kept on installation;

drop table former_key_cell, institution_cell, account_cell, key_cell, cell;

drop function keep_former_cell();
drop function refuse_name_of_another_cell();
drop function refuse_institution_of_another_cell();
drop function hold_name(text, text);
drop function refuse_cell_elsewhere();
drop function refuse_other_number();
drop function refuse_other_cell();
drop function become_cell(integer);

alter table installation
    drop column cell,
    drop column cell_identity,
    drop column tagged_since,
    drop column drained_at,
    drop column elsewhere_since,
    drop column came_by;
revoke update (beat_at) on installation from pixconnect_operator;

alter table institution_account drop column held_at;

-- No copy by logical replication is made any more.
alter table tally_change replica identity default;
alter table webhook_tally_change replica identity default;
