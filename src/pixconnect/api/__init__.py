"""Callers that speak JSON."""
