-- Tables from before the mode was kept have no row in installation while they are migrated, so 0138 could not say there since when
-- names have tags: whoever adds the row does.
grant insert (tagged_since) on installation to pixconnect_service;
