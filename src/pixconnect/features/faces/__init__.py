"""Interfaces of banks in the sandbox, for the banks' own client libraries."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    doors=("features.faces.api:DOORS",),
    api_extensions=("features.faces.api:EXTENSIONS",),
    verbs=(
        Verb(
            *("operator", "face", "features.faces.cli:app"),
            "Sandbox: the interfaces of institutions, for their own libraries.",
        ),
    ),
)
