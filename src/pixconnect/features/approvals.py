"""Transfers that wait for an operator's approval before they leave."""

from typing import Final

from pixconnect.feature import Feature

FEATURE: Final = Feature(
    problems=("usecases.money.approval:PROBLEMS",),
    meters=("usecases.money.approval:METERS",),
    pages=("console.approvals:ROUTES",),
    menu=("console.approvals:MENU",),
    overview=("console.approvals:OVERVIEW",),
    text_columns="""
approval_answer,decided_by,operator
approval_answer,order_name,none
pending_approval,order_name,none
""",
)
