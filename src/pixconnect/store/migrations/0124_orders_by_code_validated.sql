-- outside a transaction
alter table open_order validate constraint a_code_is_of_a_transfer_there;
drop index concurrently if exists transfer_payee_there;
