"""The kernel's SQL, a module for each table."""
