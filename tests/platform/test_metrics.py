"""The text format, read by an independent library."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pixconnect.platform.metrics import Histogram, Measured, MetricFamily, write_text

COUNTED = MetricFamily(name="things_total", kind="counter", meaning="Things.", labels=("kind", "what"))
HELD = MetricFamily(name="things_held", kind="gauge", meaning="Things that are held.")
TOOK = MetricFamily(name="things_took_seconds", kind="histogram", meaning="How long.", labels=("kind",))


def histogram(*values: float) -> Histogram:
    made = Histogram((0.1, 1.0))
    for value in values:
        made.observe(value)
    return made


def read_text(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_written_is_what_is_read() -> None:
    odd = 'a "quoted"\\ word\nand another'
    text = write_text([
        Measured(family=COUNTED, values={("a", odd): 3, ("", "b"): 2**60}),
        Measured(family=HELD, values={(): 0.25}),
        Measured(family=TOOK, values={("x",): histogram(0.05, 0.1, 0.2, 5.0)}),
        Measured(family=MetricFamily(name="absent", kind="gauge", meaning="Not there.", labels=("a",)), values={}),
    ])  # fmt: skip
    assert read_text(text) == {
        ("things_total", (("kind", "a"), ("what", odd))): 3,
        ("things_total", (("kind", ""), ("what", "b"))): 2**60,
        ("things_held", ()): 0.25,
        ("things_took_seconds_bucket", (("kind", "x"), ("le", "0.1"))): 2,
        ("things_took_seconds_bucket", (("kind", "x"), ("le", "1.0"))): 3,
        ("things_took_seconds_bucket", (("kind", "x"), ("le", "+Inf"))): 4,
        ("things_took_seconds_sum", (("kind", "x"),)): pytest.approx(5.35),
        ("things_took_seconds_count", (("kind", "x"),)): 4,
    }
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds == {"things": "counter", "things_held": "gauge", "things_took_seconds": "histogram", "absent": "gauge"}
