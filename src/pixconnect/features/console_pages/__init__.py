"""Console pages."""
