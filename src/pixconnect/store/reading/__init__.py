"""Look-ups across tables."""
