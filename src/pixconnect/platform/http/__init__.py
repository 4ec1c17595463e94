"""The HTTP server, and one outgoing connection."""
