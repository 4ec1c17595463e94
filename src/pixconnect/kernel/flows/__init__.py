"""Use cases of the kernel; each owns its transaction."""
