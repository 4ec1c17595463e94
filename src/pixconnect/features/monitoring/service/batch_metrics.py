"""Metrics of every process of the service: the batches in which its requests are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pixconnect.kernel.writing.write_queues import WriteQueues
from pixconnect.platform.metrics import Histogram, Measured, MetricFamily

CALLS: Final = MetricFamily(
    name="pixconnect_institution_calls_total",
    kind="counter",
    meaning=(
        "Calls to institutions, by outcome: answered, refused (401 or 403), throttled (429), failed (5xx), "
        "lost (no whole answer), unreached (nothing was sent), or no_token (no token was given, so no call "
        "was made)."
    ),
    labels=("institution", "outcome"),
)


def measure_calls(calls: Mapping[tuple[str, str], int]) -> Measured:
    return Measured(family=CALLS, values=dict(calls))


GROUP_SIZE: Final = MetricFamily(
    name="pixconnect_group_size",
    kind="histogram",
    meaning="Requests that were committed together; _count is the commits, _sum the requests.",
    labels=("write",),
)
GROUP_QUEUE: Final = MetricFamily(
    name="pixconnect_group_queue_length", kind="gauge", meaning="Requests that wait for their group.", labels=("write",)
)
FAMILIES: Final = (GROUP_SIZE, GROUP_QUEUE)

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def measure_writes(writes: WriteQueues) -> Sequence[Measured]:
    found = writes.read_figures()
    sizes: dict[tuple[str, ...], Histogram] = {}
    for figures in found:
        histogram = sizes[figures.name,] = Histogram(_SIZES)
        for size, count in figures.commits_by_size.items():
            histogram.observe(size, count)
    return (
        Measured(family=GROUP_SIZE, values=sizes),
        Measured(family=GROUP_QUEUE, values={(figures.name,): figures.queue_length for figures in found}),
    )
