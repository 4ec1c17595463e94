"""Operators' allowances for outgoing money of accounts at institutions."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
