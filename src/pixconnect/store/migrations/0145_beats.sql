-- Who reads at a standby tells by an instant of the primary how old its tables are: nothing else is written where nobody writes.

alter table installation add column beat_at timestamptz;
grant update (beat_at) on installation to pixconnect_service;
comment on column installation.beat_at is
    'When the primary was last told to note its own clock, in real time: a standby that has this instant is no older. Only where one is read from.';
