"""The stored state of accounts at institutions."""
