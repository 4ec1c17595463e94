-- outside a transaction
create unique index concurrently movement_has_its_own_deficit_entry on movement (deficit_entry_id, holder_id)
    where deficit_entry_id is not null;
alter table balance validate constraint accounts_are_balanced;
alter table balance validate constraint deficit_is_not_negative;
alter table balance validate constraint deficit_is_repaid_first;
alter table movement validate constraint movement_amount_cents_check;
alter table movement validate constraint posted_with_its_entries;
alter table kept_report validate constraint kept_report_reason_check;
alter table event validate constraint event_resource_check;
