"""The kernel's SQL, one module per table."""
