"""Differences between the books and the outside, and what operators do about each."""

from typing import Final

from pixconnect.kernel.feature import Event, Feature, Lookup, Verb

FEATURE: Final = Feature(
    report_closings=("features.cases.service.case:REPORT_CLOSINGS",),
    problems=("features.cases.service.case:PROBLEMS",),
    meters=("features.cases.service.case:METERS",),
    chores=("features.cases.service.case:CHORES",),
    verbs=(
        Verb(
            *("operator", "case", "features.cases.cli:app"),
            "Show and end differences between the books and the institution or rail.",
        ),
        Verb(
            *("operator", "proposal", "features.cases.cli:proposal_app"), "Read and confirm what waits for a second operator."
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
        ),
    ),
    lookups=(Lookup("adjustment"),),
    event_families=("features.cases.rules:FAMILIES",),
    text_columns="""
adjustment,kind direction account,none
adjustment,proposed_by confirmed_by,operator
case_ending,evidence_name proposed_by confirmed_by,operator
case_ending,order_name kind claim evidence_digest contrary_item_id,none
case_note,operator note,operator
kept_case,kind name ended_as,none
kept_case,facts ended_by end_reason,operator
""",
)
