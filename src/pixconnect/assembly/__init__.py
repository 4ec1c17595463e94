"""The composition of each process: its connections, operations, pages and parts of the worker."""
