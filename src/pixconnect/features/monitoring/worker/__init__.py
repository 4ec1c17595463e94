"""Parts of the worker of monitoring."""
