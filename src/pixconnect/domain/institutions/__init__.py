"""Accounts at institutions: what an operator says of one, and what its institution lets us do there."""
