"""Rules and records of institutions."""
