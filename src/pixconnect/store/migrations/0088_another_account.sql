-- One Pix that two accounts at institutions list is credited on the first, and kept with a reason of its own.
alter table kept_report drop constraint kept_report_reason_check;
alter table kept_report add constraint kept_report_reason_check check (
    reason in (
        'unknown_order', 'contradiction', 'changed_repeat', 'cannot_be_recorded', 'cannot_be_refused', 'cannot_be_returned',
        'another_account'
    )
) not valid;
