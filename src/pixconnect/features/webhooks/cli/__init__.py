"""Verbs of webhooks."""
