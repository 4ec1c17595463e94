"""Verbs of cases."""
