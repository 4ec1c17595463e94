"""The worker: leases, the loop over orders, and what features add to it."""
