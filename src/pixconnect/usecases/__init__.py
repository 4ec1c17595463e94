"""What a caller can do; owns the transaction."""
