"""Dated rules: of the arrangement, and of data retention."""
