"""HTTP/1.1: the one server that all processes use, and the one client connection."""
