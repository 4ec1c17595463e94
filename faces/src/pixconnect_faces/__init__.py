"""Interfaces of banks in the sandbox, for the banks' own client libraries."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    doors=("pixconnect_faces.api:DOORS",),
    face_settings=("pixconnect_faces.listeners:SETTINGS",),
    api_extensions=("pixconnect_faces.api:EXTENSIONS",),
    verbs=(
        Verb(
            *("operator", "face", "pixconnect_faces.cli:app"),
            "Sandbox: the interfaces of institutions, for their own libraries.",
        ),
    ),
)
