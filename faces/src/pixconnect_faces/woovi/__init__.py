"""Woovi."""
