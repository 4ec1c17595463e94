"""Verbs that prove the books, and end what is found."""
