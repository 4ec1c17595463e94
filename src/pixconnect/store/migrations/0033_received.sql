-- Received Pix as the central bank's Pix API lists them: by the instant at which they settled.
--
-- How many a holder received in an hour that is over never changes again: nothing that has settled is undone. So an hour is counted
-- once, when its holder first asks for a list that reaches behind it, and payments pay nothing for it. Hours up to received_known
-- are here, or had none.
create table received_hour (
    holder_id bigint not null references holder,
    hour timestamptz not null,
    count bigint not null,
    primary key (holder_id, hour)
);
create table received_known (
    holder_id bigint primary key references holder,
    until timestamptz not null
);
grant select, insert, delete on received_hour to pixconnect_service;
grant select, insert, delete on received_known to pixconnect_service;
grant update (until) on received_known to pixconnect_service;

-- What the payer wrote.
alter table transfer add column payer_message text;
