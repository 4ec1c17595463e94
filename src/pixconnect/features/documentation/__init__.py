"""The OpenAPI documents, and the served site."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
