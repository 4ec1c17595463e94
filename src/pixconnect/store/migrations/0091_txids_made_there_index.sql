-- outside a transaction
-- Not unique: two that an institution names alike are two charges all the same.
create index concurrently charge_opening_network_txid on charge_opening (network_txid) where network_txid is not null;
alter table charge_opening validate constraint a_txid_made_there_is_of_an_open_charge;
