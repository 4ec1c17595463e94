-- Whoever had forgotten where the tables were in the meantime noted at each start that they are here, and so hid it from those who
-- remember. The instant stays that at which they came.

comment on column installation.seen_at is
    'Since when they are on that server, in real time: when they came there, or when it was seen that they had been elsewhere meanwhile.';

-- `cell set` looks whether what it notes at a server arrives at what calls itself its standby.
grant update (beat_at) on installation to pixconnect_operator;

-- A home cell that is put back to a move which has ended since would open the former database again.
alter table installation add column came_by text;
alter table installation add constraint installation_came_by_check check (length(came_by) <= 63);

comment on column installation.came_by is
    'The last move by which this cell came to another database, by the name of its copy there; null where it has never moved.';
