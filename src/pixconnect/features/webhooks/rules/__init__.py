"""Rules and records of webhooks."""
