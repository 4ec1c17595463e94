"""Accounts at institutions: added and kept by operators, read by the worker, asked by whoever opens a charge."""
