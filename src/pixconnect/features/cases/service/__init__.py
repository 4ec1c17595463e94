"""Use cases of cases."""
