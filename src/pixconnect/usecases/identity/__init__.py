"""Who asks, and how that is proved: holders, clients, tokens, keys, operators and their sessions."""
