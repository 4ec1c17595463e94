"""Metrics of every process of the service: what its calls to institutions came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pixconnect.foundation.metrics import Measured, MetricFamily

CALLS: Final = MetricFamily(
    name="pixconnect_institution_calls_total",
    kind="counter",
    meaning="Calls to institutions, by what came of them: answered, refused (401 or 403), throttled (429), failed (5xx), lost "
    "(no whole answer), unreached (nothing left us), or no_token (none was given, so nothing was asked).",
    labels=("institution", "outcome"),
)


def measure_calls(calls: Mapping[tuple[str, str], int]) -> Measured:
    return Measured(family=CALLS, values=dict(calls))
