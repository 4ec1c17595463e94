"""Spans reach a real OTLP receiver with the right parents, and a missing or silent collector delays nothing."""

import asyncio
import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest

from pixconnect.features.traces.otlp import OtlpTracer
from support.collector import Collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def make_tracer(url: str) -> OtlpTracer:
    return OtlpTracer(url, "pixconnect-test", "1.2.3")


async def test_spans_arrive_with_who_asked_for_them_their_time_and_what_they_say() -> None:
    with Collector() as collector:
        tracer = make_tracer(collector.url)
        asked_at = datetime.now(UTC) - timedelta(minutes=2)
        outer = tracer.begin("server", "outer", f"00-{TRACE}-{SPAN}-01", began_at=asked_at, facts={"a.b": 1})
        inner = tracer.begin("client", "inner", outer.traceparent)
        inner.end(has_failed=True, facts={"word": "kept"})
        outer.end()
        await tracer.close()
        first, second = collector.list_of(TRACE)
    assert (first.name, first.parent_id, first.facts, first.has_failed) == ("outer", SPAN, {"a.b": 1}, False)
    assert (second.name, second.parent_id, second.facts, second.has_failed) == (
        "inner", first.span_id, {"word": "kept"}, True,
    )  # fmt: skip
    assert first.began_ns == int(asked_at.timestamp() * 1_000_000) * 1_000
    assert first.process == "pixconnect-test"
    assert outer.traceparent == f"00-{TRACE}-{first.span_id}-01"


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00-nothing",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",  # it came twice
        f"00-{TRACE}-{SPAN}-01\r\nx-other: 1",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01more",
        pytest.param(f"cc-{TRACE}-{SPAN}-01-{'x' * 1000}", id="too long"),
    ],
)
async def test_without_a_trace_that_can_be_read_one_begins(parent: str, caplog: pytest.LogCaptureFixture) -> None:
    with Collector() as collector:
        tracer = make_tracer(collector.url)
        span = tracer.begin("server", "alone", parent)
        span.end()
        await tracer.close()
        (found,) = collector.spans
    assert span.traceparent == f"00-{found.trace_id}-{found.span_id}-01"
    assert (found.trace_id != TRACE, found.parent_id) == (True, "")
    # Callers may send such a one with every request.
    assert caplog.records == []


@pytest.mark.parametrize("version", ["00", "cc"])
@pytest.mark.parametrize(("flags", "passed_on"), [("00", "00"), ("01", "01"), ("02", "00"), ("03", "01")])
async def test_what_is_well_formed_is_passed_on_as_the_first_version_has_it(version: str, flags: str, passed_on: str) -> None:
    tracer = make_tracer("http://127.0.0.1:1/v1/traces")
    more = "" if version == "00" else "-what-will-be"
    found = tracer.begin("server", "given", f" \t{version}-{TRACE}-{SPAN}-{flags}{more} ").traceparent.split("-")
    assert (found[0], found[1], found[3]) == ("00", TRACE, passed_on)
    await tracer.close()


async def test_a_trace_that_is_not_sampled_is_passed_on_and_not_sent() -> None:
    with Collector() as collector:
        tracer = make_tracer(collector.url)
        given = tracer.begin("server", "given", f"00-{TRACE}-{SPAN}-00")
        given.end()
        wanted = tracer.begin("server", "wanted", f"00-{TRACE}-{SPAN}-01")
        wanted.end()
        await tracer.close()
        assert [span.name for span in collector.spans] == ["wanted"]
    _, trace_id, _, flags = given.traceparent.split("-")
    assert (trace_id, flags) == (TRACE, "00")


async def test_a_collector_that_never_answers_keeps_nobody_who_begins_spans_nor_who_stops() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracer = make_tracer(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces")
        # More than the queue holds; the others are dropped.
        for _ in range(10_000):
            tracer.begin("server", "lost").end()
        async with asyncio.timeout(60):
            await tracer.close()
    # A running thread would use the module ``random``, which the property tests of this process forbid.
    for thread in threading.enumerate():
        if thread.name.startswith("Otel"):
            thread.join(60)
            assert not thread.is_alive()
