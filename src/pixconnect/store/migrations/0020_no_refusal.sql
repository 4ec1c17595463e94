-- A payment or return that has settled, that no account here can have, and that the rail does not let us refuse.
alter table kept_report drop constraint kept_report_reason_check;
alter table kept_report add constraint kept_report_reason_check check (
    reason in ('unknown_order', 'contradiction', 'changed_repeat', 'cannot_be_recorded', 'cannot_be_refused')
) not valid;
