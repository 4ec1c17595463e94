"""What proves the books."""
