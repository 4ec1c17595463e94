"""Use cases of the sandbox."""
