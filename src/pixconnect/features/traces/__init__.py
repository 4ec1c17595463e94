"""Traces of requests and orders (OpenTelemetry)."""

from typing import Final

from pixconnect.kernel.feature import Feature

FEATURE: Final = Feature(
    api_extensions=("features.traces.api:EXTENSIONS",), worker_extensions=("features.traces.worker:EXTENSIONS",)
)
