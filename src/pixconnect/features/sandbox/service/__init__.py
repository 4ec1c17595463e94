"""Use cases of sandbox."""
