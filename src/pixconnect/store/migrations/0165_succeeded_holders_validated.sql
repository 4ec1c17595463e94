-- outside a transaction
create index concurrently holder_of_family on holder (family_id) where family_id is not null;
alter table holder validate constraint a_family_is_of_holders;
alter table holder validate constraint a_successor_is_a_holder;
alter table holder validate constraint a_successor_is_of_the_family;
