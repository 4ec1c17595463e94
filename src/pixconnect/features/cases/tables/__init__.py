"""SQL of cases."""
