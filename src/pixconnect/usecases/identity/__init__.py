"""Callers, and how they prove who they are: holders, clients, tokens, keys, operators and their sessions."""
