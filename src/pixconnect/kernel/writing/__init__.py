"""Batches: requests that wait together are written by one transaction."""
