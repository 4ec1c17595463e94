"""Institutions' statement files: their formats, each read into the same records."""
