"""SQL of finding."""
