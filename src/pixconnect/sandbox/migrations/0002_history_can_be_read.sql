-- Who starts on these tables compares their history with its own.
grant select on schema_version to pixconnect_sandbox;
