"""Rules and records of cases."""
