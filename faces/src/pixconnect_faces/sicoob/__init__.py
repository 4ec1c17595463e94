"""Sicoob."""
