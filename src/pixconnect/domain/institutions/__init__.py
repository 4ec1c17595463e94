"""Accounts at institutions: what an operator says of one, what its institution lets us do there, and how its days close."""
