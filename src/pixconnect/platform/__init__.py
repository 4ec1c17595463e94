"""What the service stands on: connections, HTTP, flow control, JOSE, logs, settings."""
