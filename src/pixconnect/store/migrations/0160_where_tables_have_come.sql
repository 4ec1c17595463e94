-- Whoever had forgotten where the tables were in the meantime noted at each start that they are here, and so hid it from those who
-- remember. The instant stays that at which they came.

comment on column installation.seen_at is
    'Since when they are on that server, in real time: when they came there, or when it was seen that they had been elsewhere meanwhile.';

-- `cell set` looks whether what it notes at a server arrives at what calls itself its standby.
grant update (beat_at) on installation to pixconnect_operator;
