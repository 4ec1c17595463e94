"""Use cases of contests."""
