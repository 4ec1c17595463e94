-- The home cell knows where a cell is being moved to, and since when: whoever finds a move that was cut off goes on from there.

alter table cell
    add column other_address text unique constraint other_address_has_no_login check (
        length(other_address) <= 1000 and other_address ~ '^postgresql://[^@?#]*/[^@/?#]+([?][^@#]*)?$'
        and other_address !~* '[?&](user|password|passfile|service|sslcert|sslkey|sslpassword)='
    ),
    add column moving_since timestamptz,
    drop constraint cell_state_check,
    add constraint cell_state_check check (state in ('OPENING', 'OPEN', 'MOVING')),
    add constraint moves_to_another_address check (
        (state = 'MOVING') = (other_address is not null) and (state = 'MOVING') = (moving_since is not null)
        and other_address is distinct from address
    );
grant update (other_address, moving_since) on cell to pixconnect_operator;

drop trigger known_cell_is_kept on cell;
create trigger known_cell_is_kept before update on cell for each row
    when (old.number <> new.number or old.name <> new.name or old.state <> 'OPENING' and old.identity <> new.identity)
    execute function refuse_other_number();

comment on column cell.state is
    'OPENING until its tables are made and say its number; then OPEN; MOVING while they are copied, and served where they were.';
comment on column cell.other_address is 'Where it is being moved to; null while nobody moves it.';
comment on column cell.moving_since is
    'When its move was begun, in real time: its former database is called by that once it is closed; null while nobody moves it.';
