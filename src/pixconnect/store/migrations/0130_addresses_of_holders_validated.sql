-- outside a transaction
alter table holder validate constraint holder_street_check;
alter table holder validate constraint holder_state_check;
alter table holder validate constraint holder_postal_code_check;
alter table holder validate constraint an_address_is_whole;
