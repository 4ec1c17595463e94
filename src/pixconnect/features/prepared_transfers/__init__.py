"""Transfers that are prepared first and confirmed later."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
