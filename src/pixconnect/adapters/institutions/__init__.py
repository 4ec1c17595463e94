"""Accounts at institutions over HTTP: the central bank's API by a profile, and what institutions have of their own."""
