"""Allowances."""
