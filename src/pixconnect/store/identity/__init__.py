"""Holders, clients and keys, people's sessions, the audit, and the origins of facts."""
