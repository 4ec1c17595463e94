"""The rules of notifications: endpoints, deliveries, signatures, the feed."""
