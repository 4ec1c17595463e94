"""HTTP/1.1, both ways: the one server of all that listens, and the one connection of all that asks."""
