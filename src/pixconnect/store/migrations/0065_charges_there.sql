-- outside a transaction
-- Charges at institutions expire by what was read there, and transfers are looked for by the account's day.
create index concurrently charge_due_there on charge (institution_id, expires_at)
    where status = 'PENDING' and institution_id is not null;
create index concurrently transfer_of_institution on transfer (institution_id, network_settled_at)
    where institution_id is not null;
alter table holder validate constraint holder_lies_on_an_account;
