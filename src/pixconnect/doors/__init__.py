"""Entry points: frames of the API, the command line, the console and the worker."""
