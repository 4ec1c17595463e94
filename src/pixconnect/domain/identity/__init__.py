"""Permissions: clients and their scopes, signing keys, the console's people."""
