"""The application with a span for each request; only where traces are sent."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

from pixconnect.doors.api.extension import Answering, ApiExtension, ApiExtensionRow, FindOperation
from pixconnect.doors.api.operation import AnyOperation
from pixconnect.doors.api.prepared import read_headers
from pixconnect.features.traces.tracer import Fact, Tracer, open_tracer
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.config import Settings
from pixconnect.platform.http.exchange import RESPONSE_START, TRACEPARENT, Message, Receive, Scope, Send, WholeAnswer
from pixconnect.platform.logging import current_trace


class TracedApplication:
    """Accepts a ``traceparent``, and passes the trace on to the request's calls."""

    def __init__(self, application: Answering, find_operation: FindOperation, tracer: Tracer) -> None:
        self._application = application
        self._find_operation = find_operation
        self._tracer = tracer

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        # What a full process refuses gets no span: it would cost more than the refusal.
        return self._application.answer_at_once(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = cast("Mapping[bytes, bytes]", scope.get("headers_by_name") or read_headers(scope["headers"]))
        # One that came twice is joined by a comma here, and so malformed.
        parent = headers.get(b"traceparent", b"").decode("latin-1")
        operation = self._find_operation(scope)
        # Probes and public pages, which may be read at any rate, would bury all else.
        if not parent and (operation is None or (operation.scope is None and operation.method == "GET")):
            current_trace.set(None)
            await self._application(scope, receive, send)
            return
        status = 0

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == RESPONSE_START:
                status = message["status"]
            await send(message)

        name, facts = _describe(operation)
        span = self._tracer.begin("server", name, parent, facts=facts)
        scope[TRACEPARENT] = span.traceparent
        current_trace.set(span.traceparent)
        try:
            await self._application(scope, receive, send_noting)
        finally:
            # Without a status the caller went away, or we were stopped.
            span.end(has_failed=status >= 500 or not status, facts={"http.response.status_code": status})


def _describe(operation: AnyOperation | None) -> tuple[str, dict[str, Fact]]:
    # Not the target: callers' ids, keys and secrets stand in it.
    if operation is None:
        return "HTTP", {}
    facts: dict[str, Fact] = {
        "http.request.method": operation.method,
        "http.route": operation.path,
        "pixconnect.operation": operation.id,
    }
    return f"{operation.method} {operation.path}", facts


class _TracesRequests(ApiExtension):
    def __init__(self, tracer: Tracer | None) -> None:
        self._tracer = tracer

    def wrap(self, application: Answering, find_operation: FindOperation) -> Answering:
        return application if self._tracer is None else TracedApplication(application, find_operation, self._tracer)


@asynccontextmanager
async def _open(settings: Settings, _context: Context) -> AsyncGenerator[ApiExtension]:
    async with open_tracer(settings, "pixconnect-api") as tracer:
        yield _TracesRequests(tracer)


EXTENSIONS: Final = (ApiExtensionRow(open=_open),)
