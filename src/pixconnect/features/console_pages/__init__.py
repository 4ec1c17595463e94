"""Pages of the console that belong to no other feature."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
