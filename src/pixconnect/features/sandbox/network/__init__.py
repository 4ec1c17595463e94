"""The simulated network: a program with separate tables."""

from pixconnect.kernel.feature import list_names
from pixconnect.platform.migrations import Steps, read_steps


def read_network_steps() -> Steps:
    """The steps that make its tables: its own files, then ``sandbox.sql`` of each feature."""
    return read_steps(__name__, tuple(f"pixconnect.features.{name}" for name in list_names()), "sandbox.sql")
