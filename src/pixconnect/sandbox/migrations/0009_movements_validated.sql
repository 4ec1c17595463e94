-- outside a transaction
alter table arrival validate constraint arrival_kind_check;
