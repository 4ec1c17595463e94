"""APIs in JSON."""
