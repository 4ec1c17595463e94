"""Infrastructure without business rules: connections, HTTP, flow control, JOSE, logs, settings."""
