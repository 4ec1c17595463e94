"""The fixture of a simulated network."""

from features.sandbox.conftest import sandbox  # noqa: F401
