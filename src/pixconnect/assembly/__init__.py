"""What each process consists of: its connections, operations, pages and parts of the worker."""
