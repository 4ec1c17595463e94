"""Rules and records of sandbox."""
