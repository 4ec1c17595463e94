"""Operators' allowances for outgoing money of accounts at institutions."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    order_rules=("features.allowances.service:ORDER_RULES",),
    verbs=(
        Verb("below institution", "allow", "features.allowances.cli:allow"),
        Verb("below institution", "unmatched", "features.allowances.cli:unmatched"),
    ),
)
