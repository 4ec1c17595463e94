"""Whoever is told of what happened: endpoints, key webhooks, deliveries, and the feed."""
