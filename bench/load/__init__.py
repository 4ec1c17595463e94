"""Load generators and webhook receivers."""
