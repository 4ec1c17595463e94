"""Entries that two operators post where the books and an institution differ."""

from typing import Final

from pixconnect.kernel.feature import Event, Feature, Verb

FEATURE: Final = Feature(
    report_closings=("features.cases.service.case:REPORT_CLOSINGS",),
    verbs=(
        Verb(
            *("operator", "proposal", "features.cases.cli:proposal_app"),
            "Read and confirm what waits for a second operator.",
        ),
    ),
    rules=("features.cases.checks:ADJUSTMENTS",),
    rule_parts=("features.cases.checks:PARTS",),
    events=(
        Event(
            "adjustment.posted",
            "adjustment",
            "The operators have adjusted your balance: your account and the institution's differ, and no Pix or "
            "movement explains it.",
            is_own=True,
            is_in_sandbox=False,
        ),
    ),
    event_families=("features.cases.rules:FAMILIES",),
    text_columns="""
adjustment,kind direction account,none
adjustment,proposed_by confirmed_by,operator
""",
)
