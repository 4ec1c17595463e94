"""The operations of our own contract."""
