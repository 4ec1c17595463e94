"""A separate service for each measure, and the resources of its processes."""
