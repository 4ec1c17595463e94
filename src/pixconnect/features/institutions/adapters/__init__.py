"""Adapters for institutions with the central bank's API, and their shared parts."""
