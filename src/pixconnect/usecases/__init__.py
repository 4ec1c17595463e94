"""Everything that a caller can do; each use case owns its transaction."""
