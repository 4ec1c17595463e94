-- A takeover by a standby that each commit had waited for has forgotten nothing: what says so is noted while all is well.

alter table installation add column waiting_cluster text check (length(waiting_cluster) between 1 and 64);
comment on column installation.waiting_cluster is
    'The name of the cluster whose commits wait for a standby, as last seen; null where they wait for none.';
grant update (waiting_cluster) on installation to pixconnect_service;
