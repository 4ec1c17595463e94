"""Money that an institution moves by itself: fees, wires."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    report_takers=("features.movements.service:REPORT_TAKERS",), sections=("features.movements.api:SECTIONS",)
)
