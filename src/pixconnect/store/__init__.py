"""The persistent state; the only SQL."""
