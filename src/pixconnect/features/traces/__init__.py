"""Traces of requests and orders (OpenTelemetry)."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature()
