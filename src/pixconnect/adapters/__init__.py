"""What we do not own: the rail, other people's webhooks, the clock, randomness."""
