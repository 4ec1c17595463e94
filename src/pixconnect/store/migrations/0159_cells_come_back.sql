-- A cell may be set to a database that it had before. That database knows its own server, so nothing in it shows that the cell has
-- gone on elsewhere since: whoever sets it says so, and whoever serves it next counts a loss.

alter table installation add column elsewhere_since timestamptz;
grant update (elsewhere_since) on installation to pixconnect_operator;
grant update (elsewhere_since) on installation to pixconnect_service;

comment on column installation.elsewhere_since is
    'Since when the cell may have gone on in another database, in real time; null once somebody has counted that as a loss.';
