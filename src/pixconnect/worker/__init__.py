"""The caller that is time."""
