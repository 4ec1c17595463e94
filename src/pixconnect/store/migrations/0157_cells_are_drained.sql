-- A cell can be closed to new holders. It says so itself, so the home cell can too, and whoever moves a cell moves this with it.

alter table installation add column drained_at timestamptz;
grant update (drained_at) on installation to pixconnect_operator;

comment on column installation.drained_at is
    'Since when no holder is opened here any more, in real time; null while holders are.';
