"""A service of its own for each measure, and what its processes use."""
