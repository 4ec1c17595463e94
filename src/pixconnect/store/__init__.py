"""What we remember; the only SQL."""
