"""Verbs that prove the books, and end findings."""
