"""The receivers of events: endpoints, key webhooks, deliveries, and the feed."""
