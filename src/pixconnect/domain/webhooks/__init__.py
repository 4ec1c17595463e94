"""The rules of telling: endpoints, deliveries, signatures, the feed."""
