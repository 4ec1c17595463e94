"""Sends traces by OTLP over HTTP: the port ``features.traces.rules.Tracer``, by the libraries of OpenTelemetry.

It is imported only if traces are sent, since an installation without them lacks these libraries. They send from a thread of
their own: spans that cannot be sent, or exceed the queue, are lost without delaying requests.
"""

from __future__ import annotations

import asyncio
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
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, set_span_in_context
from opentelemetry.trace import Span as RecordedSpan

from pixconnect.features.traces import rules as trace
from pixconnect.features.traces.rules import NO_FACTS, Fact, TraceParent, parse_traceparent, write_traceparent

_KINDS: Final = {"server": SpanKind.SERVER, "internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_WAITING_MAX: Final = 4096
_SENT_AFTER_MS: Final = 1_000
_SEND_TIMEOUT_S: Final = 5.0
_LAST_SENT_S: Final = 2.0
"""How long a process that stops waits for the last spans to be sent."""


class OtlpSpan:
    def __init__(self, span: RecordedSpan) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return write_traceparent(TraceParent(context.trace_id, context.span_id, context.trace_flags.sampled))

    def end(self, *, has_failed: bool = False, facts: Mapping[str, Fact] = NO_FACTS) -> None:
        self._span.set_attributes(facts)
        if has_failed:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class OtlpTracer:
    def __init__(self, url: str, process: str, version: str) -> None:
        """Send to a collector.

        Args:
            url: Its address for spans.
            process: The name of this process.
            version: The program's.
        """
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
        known = parse_traceparent(parent) if parent else None
        began_ns = None if began_at is None else int(began_at.timestamp() * 1_000_000) * 1_000
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(NonRecordingSpan(_context_of(known)), Context()) if known else Context(),
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


def _context_of(parent: TraceParent) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
