"""Use cases of identity."""
