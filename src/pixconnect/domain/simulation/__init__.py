"""The port through which a sandbox is driven."""
