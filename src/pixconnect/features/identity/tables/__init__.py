"""SQL of identity."""
