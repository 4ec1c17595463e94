"""``docs/reference/metrics.md``, from the metrics of the processes."""

from pixconnect.features.monitoring import process_metrics as api_metrics
from pixconnect.features.monitoring import worker as worker_metrics
from pixconnect.platform.metrics import MetricFamily


def write_page() -> str:
    """``docs/reference/metrics.md``."""
    lines = [
        "# Metrics",
        "",
        "Every metric and what it counts. Written by `make docs` from what the processes measure.",
        "",
        "With `PIXCONNECT_METRICS_PORT` set, `serve` and `work` answer `GET /metrics` on that port of 127.0.0.1, in the text",
        "format of Prometheus, without a token. Under `pixconnect run` the worker has that port and the API processes the ones",
        "after it. Each process reports its own figures since its start: add them up, except those *of all workers*, which are",
        "missing while the database is unreachable.",
        "",
        "Code only counts; other figures are read at each request.",
    ]
    for title, families in (("An API process", api_metrics.FAMILIES), ("A worker", worker_metrics.FAMILIES)):
        lines += ["", f"## {title}", "", "| Name | Kind | Labels | Meaning |", "|---|---|---|---|"]
        lines += [_describe(family) for family in families]
    return "\n".join(lines) + "\n"


def _describe(family: MetricFamily) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"
