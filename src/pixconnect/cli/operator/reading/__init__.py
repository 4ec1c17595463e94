"""Verbs that look across subjects: at an id, and at what is held about a person."""
