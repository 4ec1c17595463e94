-- outside a transaction
-- Payments that were accepted and have not ended: health counts those that take too long. A rail with one step has none.
create index concurrently transfer_accepted on transfer (created_at) where direction = 'IN' and status = 'PROCESSING';
alter table charge validate constraint only_pending_charge_is_held;
alter table kept_report validate constraint kept_report_kind_check;
