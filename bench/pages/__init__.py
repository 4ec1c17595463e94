"""Pages of ``docs/reference`` from the results."""
