"""Parts of the service on one machine: supervisor, fork server, embedded PostgreSQL, the home."""
