"""Receipts of payments, as data and as PDF."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(sections=("features.receipts.api:SECTIONS",), pages=("features.receipts.pages:ROUTES",))
