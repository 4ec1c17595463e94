"""SQL of monitoring."""
