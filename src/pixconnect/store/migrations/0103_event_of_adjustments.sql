-- Events may be about adjustments.
alter table event drop constraint event_resource_check;
alter table event add constraint event_resource_check check (
    resource in ('charge', 'transfer', 'refund', 'movement', 'adjustment')
) not valid;
