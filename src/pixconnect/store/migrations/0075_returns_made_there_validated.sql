-- outside a transaction
create unique index concurrently movement_is_taken_back_once on movement (holder_id, opposite_of) where opposite_of is not null;
-- What left the account and was a movement is looked for again, when a return or order is told late.
create index concurrently institution_item_moved_out on institution_item (institution_id, amount_cents, day)
    where joined_kind = 'movement' and direction = 'OUT';
alter table refund validate constraint made_there_is_told_at_its_end;
alter table movement validate constraint an_opposite_is_of_another;
alter table kept_report validate constraint kept_report_kind_check;
