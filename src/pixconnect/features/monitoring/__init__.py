"""Health checks, metrics, alarms and figures."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    verbs=(
        Verb(
            *("operator", "report", "features.monitoring.cli:app"),
            "List and resolve reports of the rail that wait for an operator.",
        ),
    )
)
