"""Search, timelines and lists across subjects."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    pages=("features.finding.pages:ROUTES",),
    verbs=(
        Verb(
            *("operator", "find", "features.finding.cli:find"),
            "Find payments of all holders by an id, an amount and a day, a name or a tax id; list unended orders.",
        ),
    ),
)
