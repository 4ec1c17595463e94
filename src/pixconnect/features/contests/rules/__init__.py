"""Rules and records of contests."""
