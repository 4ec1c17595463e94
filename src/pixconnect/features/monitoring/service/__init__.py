"""Use cases of monitoring."""
