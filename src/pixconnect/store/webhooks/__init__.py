"""Events, endpoints, key webhooks, and the deliveries to them."""
