"""A whole installation on one machine: its folder, its PostgreSQL, its processes and who keeps them running."""
