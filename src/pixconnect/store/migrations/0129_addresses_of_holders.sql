-- Charges with a due date show where their holder is: beside the city, which is known since the beginning.

alter table holder add column street text, add column state text, add column postal_code text;
alter table holder add constraint holder_street_check check (length(street) between 1 and 200) not valid;
alter table holder add constraint holder_state_check check (state ~ '^[A-Z]{2}$') not valid;
alter table holder add constraint holder_postal_code_check check (postal_code ~ '^[0-9]{8}$') not valid;
alter table holder add constraint an_address_is_whole check (num_nulls(street, state, postal_code) in (0, 3)) not valid;
grant update (street, city, state, postal_code) on holder to pixconnect_operator;

-- Every process remembers accounts.
create trigger holder_address_moves_access_revision after update of street, city, state, postal_code on holder
    for each row when (
        (old.street, old.city, old.state, old.postal_code) is distinct from
            (new.street, new.city, new.state, new.postal_code)
    )
    execute function move_access_revision();

comment on column holder.street is 'The street and number; null where no address is known, and then no charge with a due date can be made.';
comment on column holder.state is 'The state, by its two letters.';
comment on column holder.postal_code is 'The CEP, 8 digits.';
