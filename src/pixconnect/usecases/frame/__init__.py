"""What all use cases stand on: their context and rules, replays, the audit, and what a process remembers between two calls."""
