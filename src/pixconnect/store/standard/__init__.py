"""Rows and lists that only the central bank's API has."""
