"""Console pages without a feature of their own."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
