"""This package's version, which is also the name that it calls itself by in requests."""

__version__ = "0.1.0"
