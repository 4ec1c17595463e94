"""What exists in a sandbox only: the network's controls, holders for tests, the demonstration."""
