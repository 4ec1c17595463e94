-- Some institutions take no txid of ours and make their own, which is what the payer's institution and theirs know.
alter table charge_opening add column network_txid text collate "C";
alter table charge_opening add constraint a_txid_made_there_is_of_an_open_charge
    check (network_txid is null or network_txid ~ '^[a-zA-Z0-9]{1,35}$' and state = 'opened') not valid;
grant update (network_txid) on charge_opening to pixconnect_service;
comment on column charge_opening.network_txid is 'The institution''s own, where it takes none of ours; null otherwise.';
