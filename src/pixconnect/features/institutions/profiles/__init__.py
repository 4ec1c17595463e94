"""How institutions differ from the central bank's API, as data."""
