"""Charges with a due date: interest, fines, rebates, discounts."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    sections=("features.due_charges.contract:SECTIONS",),
    day_rules=("features.due_charges.rules.day_amount:DAY_RULES",),
    paid_parts=("features.due_charges.service:PAID_PARTS",),
)
