"""The simulated network: a program with tables of its own."""
