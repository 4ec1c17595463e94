"""Rules and records of identity."""
