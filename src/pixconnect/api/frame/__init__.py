"""The basis of all operations: requests decoded, callers authenticated, answers wrapped."""
