"""Contests in the simulated network: payers, and the holder's institution."""
