"""Due charges."""
