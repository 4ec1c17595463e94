-- outside a transaction
alter table balance validate constraint accounts_are_balanced;
alter table balance validate constraint blocked_is_not_negative;
alter table ledger_entry validate constraint numbered_if_funds_change;
alter table kept_report validate constraint kept_report_kind_check;
