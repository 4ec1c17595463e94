"""SQL of contests."""
