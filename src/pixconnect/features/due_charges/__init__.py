"""Charges with a due date: interest, fines, rebates, discounts."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(sections=("features.due_charges.contract:SECTIONS",))
