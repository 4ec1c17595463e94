"""The measures; the head of each file defines its figures."""
