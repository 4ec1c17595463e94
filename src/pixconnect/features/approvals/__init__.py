"""Transfers that wait for an operator's approval before they leave."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    order_rules=("features.approvals.service:ORDER_RULES",),
    verbs=(Verb(*("below operator", "transfer", "features.approvals.cli:app"), "Transfers that wait for approval."),),
    rules=("features.approvals.checks:APPROVALS",),
    rule_parts=("features.approvals.checks:PARTS",),
    problems=("features.approvals.service:PROBLEMS",),
    meters=("features.approvals.service:METERS",),
    pages=("features.approvals.pages:ROUTES",),
    menu=("features.approvals.pages:MENU",),
    overview=("features.approvals.pages:OVERVIEW",),
    text_columns="""
approval_answer,decided_by,operator
approval_answer,order_name,none
pending_approval,order_name,none
""",
)
