"""Processes, and the verbs that start, check and prepare them."""
