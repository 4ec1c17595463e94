"""Sicoob's interface: its additions to the central bank's API."""
