"""Errors, time, randomness and other basics, which import nothing of ours."""
