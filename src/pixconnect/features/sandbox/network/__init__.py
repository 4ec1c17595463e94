"""The simulated network: a program with separate tables."""
