"""The version of this package, which requests carry in ``User-Agent``."""

__version__ = "0.1.0"
