"""Holders, clients and keys, people's sessions, the audit, and who asked for what."""
