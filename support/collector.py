"""A collector of traces, which receives spans by OTLP over HTTP and keeps them."""

import gzip
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Self

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from support.listener import Answer, LoopbackServer
from support.waiting import wait_until


class CollectedSpan(Struct, frozen=True, kw_only=True):
    """A received span; ids are hexadecimal, as in a ``traceparent``."""

    process: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str  # empty if it has no parent
    began_ns: int
    ended_ns: int
    facts: Mapping[str, str | int]
    has_failed: bool


class Collector(LoopbackServer):
    """Listens on loopback inside its block."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        super().__init__(self._take, "/v1/traces")

    def _take(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        if request.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        assert request.headers["Content-Type"] == "application/x-protobuf"
        assert request.path == "/v1/traces"
        self.spans.extend(_read(ExportTraceServiceRequest.FromString(body)))
        answer = ExportTraceServiceResponse().SerializeToString()
        return 200, {"Content-Type": "application/x-protobuf"}, answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def list_of(self, trace_id: str, name: str = "") -> list[CollectedSpan]:
        """The received spans of a trace, in the order of their beginnings."""
        found = [each for each in self.spans if each.trace_id == trace_id and name in ("", each.name)]
        return sorted(found, key=lambda each: each.began_ns)

    def wait_for(self, trace_id: str, name: str, count: int = 1) -> list[CollectedSpan]:
        wait_until(lambda: len(self.list_of(trace_id, name)) >= count, f"{count} of {name} in {trace_id}: {self.spans}")
        return self.list_of(trace_id, name)


def _read(sent: ExportTraceServiceRequest) -> list[CollectedSpan]:
    return [
        CollectedSpan(
            process=next(fact.value.string_value for fact in of.resource.attributes if fact.key == "service.name"),
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            began_ns=span.start_time_unix_nano,
            ended_ns=span.end_time_unix_nano,
            facts={
                fact.key: fact.value.string_value if fact.value.HasField("string_value") else fact.value.int_value
                for fact in span.attributes
            },
            has_failed=span.status.code == span.status.STATUS_CODE_ERROR,
        )
        for of in sent.resource_spans
        for scope in of.scope_spans
        for span in scope.spans
    ]
