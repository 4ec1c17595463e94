"""The metrics of an API process, and those of every process of the service."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from pixconnect.doors.worker.parts import Gauge
from pixconnect.features.monitoring.service.health import Health
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.standby import Standby
from pixconnect.platform.metrics import Histogram, Measured, MetricFamily, Read

# fmt: off
REQUESTS: Final = MetricFamily("pixconnect_requests_total", "counter",
    "Requests answered; operation is empty if the path and method belong to none.", ("operation", "status"))
DURATIONS: Final = MetricFamily("pixconnect_request_duration_seconds", "histogram",
    "Time from a request's head until its answer was ready, for any answer; by operation.", ("operation",))
CERTIFICATES: Final = MetricFamily("pixconnect_certificate_seconds_left", "gauge",
    "How long a certificate that the settings name is still valid, as this process has read it at its start: for "
    "`PIXCONNECT_TLS_PORT`, or for `webhooks`.", ("used_for",))
CHECKS: Final = MetricFamily("pixconnect_health_check_failed", "gauge",
    "1 for each check of `GET /v1/connect/health` that finds something wrong, as this process sees it; 0 for others; missing "
    "for those that cannot be read, such as without the database.",
    ("check",))
STANDBY_READS: Final = MetricFamily("pixconnect_standby_reads_total", "counter",
    "Requests that a standby may answer (`PIXCONNECT_READ_DATABASE_URL`), by outcome: it `answered`; "
    "or the primary did, because the standby is `not_used`, has `failed`, has `cancelled` it, or the "
    "resource was `missing` there.", ("outcome",))
STANDBY_AGE: Final = MetricFamily("pixconnect_standby_age_seconds", "gauge",
    "How old the tables of that standby were when this process last looked, each second; missing while it is not used.")
GROUP_SIZE: Final = MetricFamily("pixconnect_group_size", "histogram",
    "Requests that were committed together; _count is the commits, _sum the requests.", ("write",))
GROUP_QUEUE: Final = MetricFamily("pixconnect_group_queue_length", "gauge", "Requests that wait for their group.", ("write",))
# fmt: on
_GAUGES: Final = cast("tuple[Gauge[Context], ...]", gather("gauges", Gauge))
SHARED: Final = (*(gauge.family for gauge in _GAUGES), GROUP_SIZE, GROUP_QUEUE)
"""Those of workers too: features' own, and the batches in which requests are written."""
FAMILIES: Final = (REQUESTS, DURATIONS, CERTIFICATES, CHECKS, STANDBY_READS, STANDBY_AGE, *SHARED)

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def make_api_read(
    context: Context,
    answers: Mapping[tuple[str, int], int],
    durations_s: Mapping[str, Histogram],
    read_left_s: Callable[[], Mapping[str, float]],
    read_health: Callable[[], Awaitable[Health]],
    standby: Standby | None,
) -> Read:
    async def read() -> Sequence[Measured]:
        requests = {(operation, str(status)): count for (operation, status), count in answers.items()}
        # Unused operations would be most of the page.
        durations = {(operation,): histogram for operation, histogram in durations_s.items() if histogram.total}
        checks = (await read_health()).checks
        failed = {(name,): float(result.status != "healthy") for name, result in checks.items() if result.is_read}
        return (
            Measured(family=REQUESTS, values=requests),
            Measured(family=DURATIONS, values=durations),
            Measured(family=CERTIFICATES, values={(name,): left_s for name, left_s in read_left_s().items()}),
            Measured(family=CHECKS, values=failed),
            *_measure_standby(standby),
            *measure_shared(context),
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


def measure_shared(context: Context) -> Sequence[Measured]:
    found = context.writes.read_figures()
    sizes: dict[tuple[str, ...], Histogram] = {}
    for figures in found:
        histogram = sizes[figures.name,] = Histogram(_SIZES)
        for size, count in figures.commits_by_size.items():
            histogram.observe(size, count)
    return (
        *(gauge.measure(context) for gauge in _GAUGES),
        Measured(family=GROUP_SIZE, values=sizes),
        Measured(family=GROUP_QUEUE, values={(figures.name,): figures.queue_length for figures in found}),
    )
