"""The installation itself: its memory of the server, partitions, leases, rows that break a rule."""
