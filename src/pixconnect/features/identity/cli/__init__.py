"""Verbs of identity."""
