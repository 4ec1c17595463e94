"""The central bank's API at an institution, and what all adapters share."""
