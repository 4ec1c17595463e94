"""How callers, operators and time reach the flows: frames of the API, the command line, the console and the worker."""
