"""What people look up, as records."""
