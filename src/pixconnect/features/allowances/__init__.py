"""What operators allow to leave over an account at an institution."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
