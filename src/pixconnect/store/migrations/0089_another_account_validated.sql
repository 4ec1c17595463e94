-- outside a transaction
alter table kept_report validate constraint kept_report_reason_check;
