"""Search, timelines and lists across subjects."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    pages=("features.finding.pages:ROUTES",),
    verbs=(
        Verb(
            *("operator", "find", "features.finding.cli:find"),
            "Search all holders for an id, or for orders that the rail has not ended.",
        ),
    ),
)
