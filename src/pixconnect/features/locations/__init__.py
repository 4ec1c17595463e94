"""Locations of QR codes: the payloads that ours serve, and those of other institutions that are read before a payment."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(sections=("features.locations.api:SECTIONS",), doors=("features.locations.api:DOORS",))
