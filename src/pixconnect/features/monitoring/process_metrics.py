"""The metrics of an API process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pixconnect.features.monitoring.service import batch_metrics
from pixconnect.features.monitoring.service.batch_metrics import CALLS, measure_calls
from pixconnect.features.monitoring.service.health import Health
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.writing.write_queues import WriteQueues
from pixconnect.platform.metrics import Histogram, Measured, MetricFamily, Read

REQUESTS: Final = MetricFamily(
    name="pixconnect_requests_total",
    kind="counter",
    meaning="Requests answered; operation is empty if the path and method belong to none.",
    labels=("operation", "status"),
)
DURATIONS: Final = MetricFamily(
    name="pixconnect_request_duration_seconds",
    kind="histogram",
    meaning="Time from a request's head until its answer was ready, for any answer; by operation.",
    labels=("operation",),
)
CERTIFICATES: Final = MetricFamily(
    name="pixconnect_certificate_seconds_left",
    kind="gauge",
    meaning="How long a certificate that the settings name is still valid, as this process has read it at its start: for "
    "`PIXCONNECT_TLS_PORT`, or for `webhooks`.",
    labels=("used_for",),
)
CHECKS: Final = MetricFamily(
    name="pixconnect_health_check_failed",
    kind="gauge",
    meaning="1 for each check of `GET /v1/connect/health` that finds something wrong, as this process sees it; 0 for others.",
    labels=("check",),
)
STANDBY_READS: Final = MetricFamily(
    name="pixconnect_standby_reads_total",
    kind="counter",
    meaning=(
        "Requests that a standby may answer (`PIXCONNECT_READ_DATABASE_URL`), by outcome: it `answered`; "
        "or the primary did, because the standby is `not_used`, has `failed`, has `cancelled` it, or the "
        "resource was `missing` there."
    ),
    labels=("outcome",),
)
STANDBY_AGE: Final = MetricFamily(
    name="pixconnect_standby_age_seconds",
    kind="gauge",
    meaning="How old the tables of that standby were when this process last looked, each second; missing while it is not used.",
    labels=(),
)
FAMILIES: Final = (
    REQUESTS,
    DURATIONS,
    CERTIFICATES,
    CHECKS,
    STANDBY_READS,
    STANDBY_AGE,
    CALLS,
    *batch_metrics.FAMILIES,
)


def make_api_read(
    writes: WriteQueues,
    answers: Mapping[tuple[str, int], int],
    durations_s: Mapping[str, Histogram],
    read_left_s: Callable[[], Mapping[str, float]],
    read_health: Callable[[], Awaitable[Health]],
    calls: Mapping[tuple[str, str], int],
    standby: Standby | None,
) -> Read:
    """Make a function that measures this process: writes, answers, certificates, health, calls to institutions."""

    async def read() -> Sequence[Measured]:
        requests = {(operation, str(status)): count for (operation, status), count in answers.items()}
        # Unused operations would be most of the page.
        durations = {(operation,): histogram for operation, histogram in durations_s.items() if histogram.total}
        checks = (await read_health()).checks
        failed = {(name,): float(result.status != "healthy") for name, result in checks.items()}
        return (
            Measured(family=REQUESTS, values=requests),
            Measured(family=DURATIONS, values=durations),
            Measured(family=CERTIFICATES, values={(name,): left_s for name, left_s in read_left_s().items()}),
            Measured(family=CHECKS, values=failed),
            *_measure_standby(standby),
            measure_calls(calls),
            *batch_metrics.measure_writes(writes),
        )

    return read


def _measure_standby(standby: Standby | None) -> Sequence[Measured]:
    if standby is None:
        return ()
    reads = {(outcome,): float(count) for outcome, count in standby.outcomes.items()}
    age_s = standby.age_s
    return (
        Measured(family=STANDBY_READS, values=reads),
        Measured(family=STANDBY_AGE, values={} if age_s is None else {(): age_s}),
    )
