"""Verbs of contests."""
