"""What people look up across tables."""
