"""Errors, time, randomness and other basics, which import none of our other modules."""
