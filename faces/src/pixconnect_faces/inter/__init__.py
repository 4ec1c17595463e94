"""Inter."""
