"""Sends traces by OTLP over HTTP: the port ``features.traces.tracer.Tracer``, by the libraries of OpenTelemetry.

It is imported only if traces are sent, since an installation without them lacks these libraries. They send from a thread of
their own: spans that cannot be sent, or exceed the queue, are lost without delaying requests.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import Span as RecordedSpan
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pixconnect.features.traces import tracer as trace
from pixconnect.features.traces.tracer import NO_FACTS, Fact

# It logs each ``traceparent`` above its 512 characters, which any caller may send with every request.
logging.getLogger("opentelemetry.trace.propagation.tracecontext").setLevel(logging.ERROR)
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_KINDS: Final = {"server": SpanKind.SERVER, "internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_WAITING_MAX: Final = 4096
_SENT_AFTER_MS: Final = 1_000
_SEND_TIMEOUT_S: Final = 5.0
_LAST_SENT_S: Final = 2.0  # how long a process that stops waits for the last spans to be sent


class OtlpSpan:
    def __init__(self, span: RecordedSpan) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags.sampled:02x}"

    def end(self, *, has_failed: bool = False, facts: Mapping[str, Fact] = NO_FACTS) -> None:
        self._span.set_attributes(facts)
        if has_failed:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class OtlpTracer:
    def __init__(self, url: str, process: str, version: str) -> None:
        session = requests.Session()
        session.trust_env = False  # no proxy, and no password, other than in our settings
        about = {"service.name": process, "service.version": version}
        self._provider = TracerProvider(
            # A trace that a caller began is sent if the caller's flag is set, and one that begins here always.
            sampler=ParentBased(ALWAYS_ON),
            resource=Resource(about),
            shutdown_on_exit=False,
        )
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=_SEND_TIMEOUT_S, session=session)
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, max_queue_size=_WAITING_MAX, schedule_delay_millis=_SENT_AFTER_MS)
        )
        self._tracer = self._provider.get_tracer("pixconnect", version)

    def begin(
        self,
        kind: trace.SpanKind,
        name: str,
        parent: str | None = None,
        *,
        began_at: datetime | None = None,
        facts: Mapping[str, Fact] = NO_FACTS,
    ) -> OtlpSpan:
        began_ns = None if began_at is None else int(began_at.timestamp() * 1_000_000) * 1_000
        span = self._tracer.start_span(
            name,
            context=_PROPAGATOR.extract({"traceparent": parent or ""}, Context()),
            kind=_KINDS[kind],
            attributes=facts,
            start_time=began_ns,
        )
        return OtlpSpan(span)

    async def close(self) -> None:
        """Send queued spans, for a moment."""
        # In a thread that ends with the process, however long the collector takes.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _LAST_SENT_S)
        if closing.is_alive():
            self._exporter.shutdown()  # it tries nothing more
