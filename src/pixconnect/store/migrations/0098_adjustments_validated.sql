-- outside a transaction
alter table balance validate constraint accounts_are_balanced;
