"""Use cases of institutions."""
