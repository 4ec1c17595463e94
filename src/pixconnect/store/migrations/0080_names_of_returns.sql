-- What a return was asked under at the institution is kept: a request of ours that a restored database has forgotten comes again
-- under the same name, and finds what it had made.

create table return_name (
    asked_as text collate "C" not null check (length(asked_as) between 1 and 100),
    transfer_id bigint not null,
    holder_id bigint not null,
    refund_id bigint not null,
    primary key (asked_as, transfer_id, holder_id),
    constraint return_has_one_name unique (refund_id, holder_id),
    foreign key (refund_id, holder_id) references refund (id, holder_id)
);
comment on table return_name is
    'What returns that nobody here is known to have asked for were asked under there: each once of a payment.';
comment on column return_name.asked_as is 'The id that whoever asked for it gave it at the institution.';
comment on column return_name.transfer_id is 'The payment that it returns.';
comment on column return_name.holder_id is 'The holder who had received it.';
comment on column return_name.refund_id is 'The refund that was recorded of it.';
grant select, insert on return_name to pixconnect_service;
