"""Rules and records of due charges."""
