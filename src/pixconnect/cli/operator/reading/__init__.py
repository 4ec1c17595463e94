"""Verbs that look across subjects: at an id, and at a person's data."""
