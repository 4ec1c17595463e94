"""Verbs of one holder, which call the API."""
