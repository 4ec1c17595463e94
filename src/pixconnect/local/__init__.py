"""A whole installation on one machine: its home, its PostgreSQL, its processes and their supervisor."""
