"""The standard door's fixtures."""

from features.pix_api.api.conftest import door, other_caller  # noqa: F401
