"""SQL of institutions."""
