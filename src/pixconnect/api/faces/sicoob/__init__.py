"""Sicoob's interface: what it has beyond the central bank's API."""
