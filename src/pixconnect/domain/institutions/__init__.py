"""Accounts at institutions: their descriptions, what their institutions permit, and how their days close."""
