"""Verbs of institutions."""
