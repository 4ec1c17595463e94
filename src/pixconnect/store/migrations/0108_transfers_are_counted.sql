-- Transfers over accounts are counted and judged apart from refunds; until now no order there was one.
drop trigger count_refund on open_order;
create trigger count_refund after insert on open_order for each row
    when (new.institution_id is not null and left(new.name, 1) = 'D') execute function count_refund();
create trigger count_transfer after insert on open_order for each row
    when (new.institution_id is not null and left(new.name, 1) = 'E') execute function count_transfer();
