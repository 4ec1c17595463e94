"""Accounts at institutions: operators add and manage them, the worker reads them, opening a charge calls them."""
