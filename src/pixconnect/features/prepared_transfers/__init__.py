"""Prepared transfers."""
