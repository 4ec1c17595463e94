-- outside a transaction
alter table charge validate constraint a_due_charge_says_so;
alter table tally validate constraint tally_kind_check;
create index concurrently charge_due_list on charge ((holder_id + 0), status, created_at, id) where due_on is not null;
