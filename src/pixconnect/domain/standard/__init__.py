"""The rules that only the central bank's API has."""
