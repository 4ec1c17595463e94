"""The OpenAPI documents, and the served site."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    sections=("features.documentation.api:SECTIONS",),
    doors=("features.documentation.api:DOORS",),
    api_extensions=("features.documentation.api:EXTENSIONS",),
)
