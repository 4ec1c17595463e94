"""Who may do what: clients and their scopes, signing keys, the console's people."""
