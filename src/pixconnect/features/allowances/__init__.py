"""Operators' allowances for outgoing money of accounts at institutions."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(order_rules=("features.allowances.service:ORDER_RULES",))
