"""Everything that happens without a request: deliveries, orders, expiry, housekeeping."""
