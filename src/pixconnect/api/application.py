"""The interface as one ASGI application: from a request to its answer, in the order in which it may be refused.

::

    404/405 route ► 401 token ► 403 scope ► 503 full ► 413 size ► 400 shape ► (handler: 404, replay, 422, 503)

Operations are read from the table once, when the process starts. Every request comes through here, so whatever does not change
from request to request is prepared then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec
import structlog
from msgspec import Struct

from pixconnect.api.frame import browser, decoding, envelope, idempotency_key
from pixconnect.api.frame.authentication import authenticate, read_address, read_sender
from pixconnect.api.frame.envelope import Headers, Listing
from pixconnect.api.frame.operation import NOBODY, AnyOperation, Bare, Document, Later, Nothing, Reader, Reply, Request
from pixconnect.api.frame.paging import link_next
from pixconnect.api.frame.request_lines import RequestLines
from pixconnect.api.frame.routing import Router
from pixconnect.api.frame.services import Services
from pixconnect.api.operations import choose_refusal_form, list_routes
from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import authorize, check_certificate
from pixconnect.flow.admission import TOO_MANY
from pixconnect.flow.refusal_pace import RefusalPace
from pixconnect.flow.shares import current_party
from pixconnect.foundation import outgoing_text
from pixconnect.foundation.database_failure import DATABASE_AWAY, DATABASE_BUSY, say_why
from pixconnect.foundation.logging import AccessLog, current_request
from pixconnect.foundation.metrics import Histogram
from pixconnect.http.asgi import RESPONSE_BODY, RESPONSE_START, Receive, Scope, Send, WholeAnswer

DURATION_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_PAGE_SIZE_SHORT: Final = 100
_REPLAY: Final = "replay_events"
"""Takes as long as a hundred other requests, as a page of more than ``_PAGE_SIZE_SHORT`` does."""

_NOT_KEPT: Final = (b"cache-control", b"no-store")
"""Answers hold money and tokens: no cache on the way may keep them."""
_JSON_HEADERS: Final[Headers] = [
    (b"content-type", envelope.JSON.encode()),
    _NOT_KEPT,
    (b"content-security-policy", browser.POLICY),
]

_DATABASE_GONE: Final = (*DATABASE_AWAY, *DATABASE_BUSY)
"""Raised by reads, and by writes that were not done; one that may have been done raises ``OutcomeUnknown``."""

_NOTHING: Final = Nothing()
_NO_CONTENT: Final = 204
_FULL: Final = envelope.STATUSES["SERVICE_UNAVAILABLE"]
_log = structlog.get_logger(__name__)


class _Endpoint(Struct, frozen=True, kw_only=True):
    """An operation, ready to be run."""

    operation: AnyOperation
    is_public: bool
    scope: str | None
    has_body: bool
    is_change: bool
    """Whether it may change something, so that it is noted who asked for it."""
    takes_idempotency_key: bool
    read_path: Callable[[Sequence[bytes]], Any] | None
    """``None`` where the path has no parameter."""
    read_query: Callable[[bytes], Any]
    read_body: Callable[[bytes, Mapping[bytes, bytes]], Any]


class _Progress:
    """How far a request has come, for the log of one that fails."""

    __slots__ = ("caller", "cost_s", "operation", "request_id")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.caller = NOBODY
        self.cost_s = 0.0
        self.operation: AnyOperation | None = None


class Application:
    """Answers HTTP requests."""

    def __init__(
        self, services: Services, operations: Sequence[AnyOperation], access_log: AccessLog | RequestLines
    ) -> None:
        self._services = services
        self._now = services.context.clock.now
        self._monotonic_s = services.context.clock.monotonic_s
        self._entropy = services.context.entropy
        self._access_log = access_log
        self._rates = services.rates
        self._refusal_pace = RefusalPace()
        self._admission = services.admission
        self._turns = services.turns
        self.answers: Counter[tuple[str, int]] = Counter()
        """How many there were, by operation and status; for the metrics."""
        self.durations_s = {row.id: Histogram(DURATION_BOUNDS_S) for row in operations}
        """How long they took until the answer was ready, by operation; for the metrics."""
        self._router = Router((row.method, row.path, _prepare(row)) for row in operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", scope["type"]
        started_s = self._monotonic_s()
        # Our server gives the headers by name already; another one, such as a test's, as ASGI has them.
        headers = scope.get("headers_by_name") or _read_headers(scope["headers"])
        progress = _Progress(envelope.choose_request_id(headers.get(b"x-request-id"), self._entropy))
        current_request.set((progress.request_id, None))
        client = scope["client"]
        # Until it is known who asks, the address is what queues and pools are shared out by.
        current_party.set(client[0] if client else None)
        said: object = None
        try:
            said = answer = await self._run(scope, receive, headers, progress)
            status = 200
            if type(answer) is Document:
                content, own_headers = answer.content, _document_headers(answer)
            elif type(answer) is Bare:
                content, own_headers = msgspec.json.encode(cast("Bare[object]", answer).record), _JSON_HEADERS
            elif type(answer) is Reply:
                status, content, own_headers = _write_reply(answer)
            else:
                content, own_headers = envelope.write_success(answer, progress.request_id, self._now()), _JSON_HEADERS
                if type(answer) is Listing and answer.next_after:
                    link = link_next(
                        self._services.base_url, scope["raw_path"], scope["query_string"], answer.next_after
                    )
                    own_headers = [*_JSON_HEADERS, link]
        except Exception as error:  # noqa: BLE001  whatever happens, an answer
            said = refusal = _refusal(error, progress)
            form = choose_refusal_form(progress.operation, scope["raw_path"])
            refused = form.write(refusal, progress.request_id, self._now())
            status, content, own_headers = refused.status, refused.content, _refusal_headers(refused)
        # An error of rates has its own headers, of the rate that was exceeded.
        if self._rates is not None and status != envelope.STATUSES["RATE_LIMITED"]:
            own_headers = [*own_headers, *self._rates.headers(progress.caller)]
        # Counted before it is slowed down or sent: a slow reader would make the service look slow.
        self._count(progress.operation, status, self._monotonic_s() - started_s)
        try:
            interval_s = self._refusal_pace.interval_s(status, progress.cost_s, is_known=progress.caller is not NOBODY)
            if interval_s:
                await self._slow_down(scope, headers, progress, interval_s)
            if scope["method"] == "HEAD" and not isinstance(content, bytes):
                content = _no_parts()  # nobody hears them, so they are not made
            await _send(send, status, [*own_headers, (b"x-request-id", progress.request_id.encode())], content)
        finally:
            # Whoever guesses could otherwise hang up before a refusal is told, and leave no line.
            if self._access_log.wants(status):
                self._note_access(scope, headers, status, started_s, progress, said)

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        """Refuse what a full process refuses without a task for it, because of these there are the most."""
        if not self._admission.is_full or self._rates is not None or self._access_log.wants(_FULL):
            return None
        headers = cast("Mapping[bytes, bytes]", scope["headers_by_name"] or {})
        caller = self._services.verifier.recall(headers.get(b"authorization", b""))
        if caller is None:
            return None
        started_s = self._monotonic_s()
        try:
            endpoint, _ = self._router.find(scope["method"], scope["raw_path"])
            check_certificate(caller, scope["client_certificate"])
            if endpoint.scope is not None:
                authorize(caller, endpoint.scope)
        except errors.PixConnectError:
            return None
        if endpoint.is_public or not endpoint.has_body or not self._admission.refuses(caller.holder_id):
            return None
        # It counts this one, so it is asked last.
        if not self._refusal_pace.is_due_now(caller.holder_id, started_s):
            return None
        request_id = envelope.choose_request_id(headers.get(b"x-request-id"), self._entropy)
        refused = endpoint.operation.refusals.write(errors.ServiceUnavailable(TOO_MANY), request_id, self._now())
        self._count(endpoint.operation, refused.status, self._monotonic_s() - started_s)
        own_headers = [*_refusal_headers(refused), (b"x-request-id", request_id.encode())]
        return WholeAnswer(refused.status, own_headers, refused.content)

    async def _slow_down(
        self, scope: Scope, headers: Mapping[bytes, bytes], progress: _Progress, interval_s: float
    ) -> None:
        """Let a refusal wait if there are many of this party."""
        party: Hashable = progress.caller.holder_id
        if not party:
            peer = scope["client"][0] if scope["client"] else ""
            party = read_address(headers, peer, self._services.trusted_proxies)
        delay_s = self._refusal_pace.delay_s(party, self._monotonic_s(), interval_s)
        if delay_s:
            await asyncio.sleep(delay_s)

    def _note_access(
        self,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        status: int,
        started_s: float,
        progress: _Progress,
        said: object,
    ) -> None:
        operation, caller = progress.operation, progress.caller
        peer, proxies = scope["client"][0] if scope["client"] else "", self._services.trusted_proxies
        if proxies:
            peer = read_address(headers, peer, proxies)
        self._access_log.append(
            operation=operation.id if operation else "",
            method=scope["method"],
            path=operation.path if operation else "",
            status=status,
            duration_ms=(self._monotonic_s() - started_s) * 1000,
            request_id=progress.request_id,
            holder_id=caller.holder_id or None,
            client_id=caller.client_id or None,
            peer=peer,
            target=scope["raw_path"],
            said=said,
        )

    def _count(self, operation: AnyOperation | None, status: int, duration_s: float) -> None:
        operation_id = operation.id if operation else ""
        self.answers[operation_id, status] += 1
        if operation_id:
            self.durations_s[operation_id].observe(duration_s)

    async def _run(self, scope: Scope, receive: Receive, headers: Mapping[bytes, bytes], progress: _Progress) -> object:
        """Route, authorise and admit; then as ``_go_on``: in the order in which requests are refused."""
        endpoint, raw_parameters = self._router.find(scope["method"], scope["raw_path"])
        progress.operation = endpoint.operation
        if not endpoint.is_public:
            progress.caller = await authenticate(self._services.verifier, headers, scope.get("client_certificate"))
            current_request.set((progress.request_id, progress.caller.holder_id))
            current_party.set(progress.caller.holder_id)
            if endpoint.scope is not None:
                authorize(progress.caller, endpoint.scope)
            # A token without the scope is refused first and costs nothing of the holder's rate.
            if self._rates is not None:
                self._rates.spend(progress.caller)
        if endpoint.is_public or not endpoint.has_body:
            return await self._go_on(scope, receive, headers, progress, endpoint, raw_parameters)
        # Not reads: one may wait for events for half a minute and costs nothing meanwhile.
        party = progress.caller.holder_id
        self._admission.enter(party)
        try:
            return await self._go_on(scope, receive, headers, progress, endpoint, raw_parameters)
        finally:
            self._admission.leave(party)

    async def _go_on(
        self,
        scope: Scope,
        receive: Receive,
        headers: Mapping[bytes, bytes],
        progress: _Progress,
        endpoint: _Endpoint,
        raw_parameters: Sequence[bytes],
    ) -> object:
        """Read, decode and call the handler, for a caller that may ask this."""
        operation = endpoint.operation
        raw_body = await _read_body(headers, receive, operation.body_max) if endpoint.has_body else b""
        began_s = self._monotonic_s()
        try:
            parameter = None if endpoint.read_path is None else endpoint.read_path(raw_parameters)
            query = endpoint.read_query(scope["query_string"])
            body: Any = endpoint.read_body(raw_body, headers) if endpoint.has_body else _NOTHING
            if endpoint.takes_idempotency_key and (key := headers.get(idempotency_key.HEADER)) is not None:
                body = idempotency_key.apply(key, body)
        except errors.Refusal:
            # Nothing else ran meanwhile. A thread's own CPU time would cost each request 1 to 4 us to ask for.
            progress.cost_s = self._monotonic_s() - began_s
            raise
        client = scope["client"]
        caller, peer = progress.caller, client[0] if client else ""
        if endpoint.is_change:
            caller = caller.asking(read_sender(headers, peer, self._services.trusted_proxies), progress.request_id)
        request = Request(
            caller=caller,
            parameter=parameter,
            query=query,
            body=body,
            peer=peer,
            headers=headers,
            certificate=scope.get("client_certificate"),
        )
        party = current_party.get()
        # Long requests take turns among themselves first, so that short ones pass them.
        if operation.id == _REPLAY or getattr(query, "page_size", 0) > _PAGE_SIZE_SHORT:
            async with self._turns.hold_long(party):
                answer = await self._answer(endpoint, request, party)
        else:
            answer = await self._answer(endpoint, request, party)
        return await answer.answer(partial(self._turns.hold, party)) if type(answer) is Later else answer

    async def _answer(self, endpoint: _Endpoint, request: Request[Any, Any, Any], party: Hashable) -> object:
        if not self._turns.acquire_now(party):
            await self._turns.acquire(party)
        try:
            answer = await endpoint.operation.handler(self._services, request)
            if type(answer) is Listing:
                return await envelope.write_items(cast("Listing[object]", answer))
            return answer
        finally:
            self._turns.release(party)


def make_application(services: Services, access_log: AccessLog | RequestLines) -> Application:
    """The interface of this mode as one ASGI application."""
    return Application(services, list_routes(is_sandbox=services.context.policy.is_sandbox), access_log)


def _prepare(operation: AnyOperation) -> _Endpoint:
    reader = operation.reader or _make_reader(operation)
    return _Endpoint(
        operation=operation,
        is_public=operation.scope is None,
        scope=None if operation.scope == "any" else operation.scope,
        has_body=operation.body is not Nothing,
        is_change=operation.scope is not None and operation.method != "GET",
        takes_idempotency_key=idempotency_key.is_taken_by(operation),
        read_path=reader.path if "{" in operation.path else None,
        read_query=reader.query,
        read_body=reader.body,
    )


def _make_reader(operation: AnyOperation) -> Reader:
    """Reads as the row declares."""
    read, name = operation.parameter.read, operation.parameter.name
    return Reader(
        path=lambda raw: read(decoding.decode_parameter(name, raw[0])),
        query=decoding.QueryDecoder(operation.query).decode,
        body=decoding.BodyDecoder(operation.body, operation.body_form).decode,
    )


def _read_headers(raw: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name; of one that came twice, the values joined with commas (RFC 9110, 5.3)."""
    headers = dict(raw)
    if len(headers) != len(raw):
        headers = {}
        for name, value in raw:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


async def _read_body(headers: Mapping[bytes, bytes], receive: Receive, octets_max: int) -> bytes:
    # What is declared too large is refused unread; what is sent in chunks is counted as it comes.
    if int(headers.get(b"content-length", b"0")) > octets_max:
        raise _too_large(octets_max)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body") and len(body) <= octets_max:
        message = await receive()
        body += message.get("body", b"")
    if len(body) > octets_max:
        raise _too_large(octets_max)
    return body


def _too_large(octets_max: int) -> errors.PayloadTooLarge:
    return errors.PayloadTooLarge(f"body: must have at most {octets_max} bytes")


def _refusal(error: Exception, progress: _Progress) -> errors.PixConnectError:
    """The error that the caller is told."""
    if isinstance(error, errors.PixConnectError):
        return error
    if isinstance(error, _DATABASE_GONE):
        _log.warning("the database gives no answer", error=type(error).__name__)
        return errors.ServiceUnavailable(say_why(error))
    # A defect of ours: the caller learns nothing of it, the log everything.
    operation_id = progress.operation.id if progress.operation else None
    _log.error("request failed", operation=operation_id, exc_info=error)
    return errors.InternalError("internal error")


def _write_reply(reply: Reply) -> tuple[int, bytes, Headers]:
    if reply.record is None:
        return reply.status, b"", [_NOT_KEPT, *reply.headers]
    return reply.status, msgspec.json.encode(reply.record), [*_JSON_HEADERS, *reply.headers]


def _refusal_headers(refused: envelope.Refused) -> Headers:
    if refused.media_type == envelope.JSON:
        return [*_JSON_HEADERS, *refused.headers]
    return [(b"content-type", refused.media_type.encode()), *_JSON_HEADERS[1:], *refused.headers]


def _document_headers(document: Document) -> Headers:
    headers = [
        (b"content-type", document.media_type.encode()),
        _NOT_KEPT,
        (b"content-security-policy", document.policy),
    ]
    if document.filename:
        headers.append((b"content-disposition", outgoing_text.in_attachment(document.filename).encode()))
    return headers


async def _no_parts() -> AsyncIterator[bytes]:
    for part in ():
        yield part


async def _send(send: Send, status: int, headers: Headers, content: bytes | AsyncIterator[bytes]) -> None:
    if isinstance(content, bytes):
        # RFC 9110, 8.6: 204 has no length.
        if status != _NO_CONTENT:
            headers.append((b"content-length", b"%d" % len(content)))
        await send({"type": RESPONSE_START, "status": status, "headers": headers})
        await send({"type": RESPONSE_BODY, "body": content})
        return
    await send({"type": RESPONSE_START, "status": status, "headers": headers})
    async for part in content:
        await send({"type": RESPONSE_BODY, "body": part, "more_body": True})
    await send({"type": RESPONSE_BODY, "body": b""})
