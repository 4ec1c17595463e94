"""The interface as one ASGI application: from a request to its answer, in the order of possible refusals.

::

    404/405 route ► 401 token ► 403 scope ► 429 rate ► 503 full ► 413 size ► 400 shape ► (handler: 404, replay, 422, 503)

``Application._pass`` is that order, with every wait of a request. Operations are read from the table once, when the process
starts. Every request comes through here, so anything common to all requests is prepared then.
"""

from collections import Counter
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import structlog
from msgspec import structs

from pixconnect.assembly.operations import choose_refusal_form, list_routes
from pixconnect.doors.api import envelope
from pixconnect.doors.api.decoding import READ_SLOWLY_MAX
from pixconnect.doors.api.envelope import Listing
from pixconnect.doors.api.operation import NOBODY, AnyOperation, Later, Request, RequestLines, Services, read_at_standby
from pixconnect.doors.api.prepared import PreparedOperation, prepare, read_headers, receive_body
from pixconnect.doors.api.rates import OCTETS_EACH, PublicRates
from pixconnect.doors.api.routing import Router, authenticate, read_address, read_sender
from pixconnect.doors.api.sending import refusal_headers, send_response, write_answer
from pixconnect.kernel.flows.holder import read_as_former
from pixconnect.kernel.rules.access import authorize, check_certificate
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import Network
from pixconnect.platform.database_failure import (
    DATABASE_AWAY,
    DATABASE_BUSY,
    DATABASE_REFUSES,
    explain_undone,
    is_of_own_file,
    lacks_memory,
)
from pixconnect.platform.flow.overload import TOO_MANY, RefusalPace
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.http.exchange import TRACEPARENT, Receive, Scope, Send, WholeAnswer
from pixconnect.platform.logging import AccessLog, current_request, has_written
from pixconnect.platform.metrics import Histogram

DURATION_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_DATABASE_GONE: Final = (*DATABASE_AWAY, *DATABASE_BUSY)
"""Raised by reads, and by writes that were not done; one that may have been done raises ``OutcomeUnknown``."""

_READING: Final = frozenset({"GET", "HEAD"})
_REFUSED_FROM: Final = 400
_RATE_LIMITED: Final = envelope.find_status("RATE_LIMITED")
_FORMER_ACCOUNT: Final = b"x-account-number"  # the account of a read, if the holder has succeeded another one
_log = structlog.get_logger(__name__)


class _Progress:
    __slots__ = ("address", "caller", "cost_s", "headers", "operation", "peer", "request_id", "scope", "started_s")

    def __init__(
        self,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        trusted_proxies: tuple[Network, ...],
        request_id: str,
        started_s: float,
    ) -> None:
        self.scope = scope
        self.headers = headers
        client = scope["client"]
        self.peer: str = client[0] if client else ""
        self.address = read_address(headers, self.peer, trusted_proxies)
        self.request_id = request_id
        self.started_s = started_s
        self.caller = NOBODY
        # The decoding time of a request that was refused while decoding.
        self.cost_s = 0.0
        self.operation: AnyOperation | None = None


class Application:
    def __init__(self, services: Services, operations: Sequence[AnyOperation], access_log: AccessLog | RequestLines) -> None:
        self._services = services
        self._is_sandbox = services.context.policy.is_sandbox
        self._now = services.context.clock.now
        self._monotonic_s = services.context.clock.monotonic_s
        self._entropy = services.context.entropy
        self._access_log = access_log
        self._rates = services.rates
        self._public_rates = PublicRates(services.context.clock)
        self._refusal_pace = RefusalPace()
        self._admission = services.admission
        self._turns = services.turns
        self.answers: Counter[tuple[str, int]] = Counter()  # numbers of answers by operation and status, for the metrics
        self.durations_s = {row.id: Histogram(DURATION_BOUNDS_S) for row in operations}
        """Durations until the answer was ready, by operation, for the metrics."""
        self._router = Router((row.method, row.path, prepare(row)) for row in operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        errors.ensure(scope["type"] == "http", scope["type"])
        started_s = self._monotonic_s()
        # Our server gives the headers by name already; another one, such as a test's, as ASGI has them.
        headers = scope.get("headers_by_name") or read_headers(scope["headers"])
        request_id = envelope.choose_request_id(headers.get(b"x-request-id"), self._entropy)
        progress = _Progress(scope, headers, self._services.trusted_proxies, request_id, started_s)
        current_request.set((request_id, None))
        has_written.set(False)
        # Until the caller is known, queues and pools are shared by address.
        current_party.set(progress.address or None)
        result: object = None
        try:
            result = await self._pass(progress, receive)
            status, content, own_headers = write_answer(
                result, scope, request_id, self._now(), base_url=self._services.base_url
            )
        except Exception as error:  # noqa: BLE001  in any case, an answer
            result = refusal = _refusal(error, progress)
            form = choose_refusal_form(progress.operation, scope["raw_path"], is_sandbox=self._is_sandbox)
            refused = form.write(refusal, request_id, self._now())
            status, content, own_headers = refused.status, refused.content, refusal_headers(refused)
        self._count_octets(progress, content)
        # A refusal by rates has its own headers, of the exceeded rate.
        if self._rates is not None and status != _RATE_LIMITED:
            own_headers = [*own_headers, *self._rates.headers(progress.caller)]
        if progress.operation is not None and progress.operation.scope == "transfer.write" and status != _RATE_LIMITED:
            left = self._services.context.lookups.recall_left(self._services.context, progress.caller.holder_id)
            own_headers = [*own_headers, *(() if left is None else envelope.rate_headers(left))]
        # Counted before it is slowed down or sent: a slow reader would make the service look slow.
        self._count(progress.operation, status, self._monotonic_s() - started_s)
        delay_s = self._find_delay_s(progress, status) if status >= _REFUSED_FROM else 0.0
        headers_sent = [*own_headers, (b"x-request-id", request_id.encode())]
        try:
            await send_response(send, scope, status, headers_sent, content, delay_s)
        finally:
            # Otherwise a guessing client could hang up before the refusal is sent, and leave no line in the log.
            if self._access_log.wants(status):
                self._note_access(progress, status, result)

    def _count_octets(self, progress: _Progress, content: bytes | AsyncIterator[bytes]) -> None:
        """Count a large answer to a public operation as several requests; for ``HEAD`` nothing of it is sent."""
        if type(content) is not bytes or len(content) <= OCTETS_EACH or progress.scope["method"] == "HEAD":
            return
        if progress.operation is not None and progress.operation.scope is None:
            self._public_rates.spend_octets(progress.operation.pace, progress.address, len(content))

    async def _pass(self, progress: _Progress, receive: Receive) -> object:
        """Answer a request: all refusals and waits, in the order of ``docs/explanations/fairness.md``.

        Before this the server bounds connections, and a full process refuses by ``answer_at_once``.
        """
        scope, headers = progress.scope, progress.headers
        prepared, raw_parameters = self._router.find(scope["method"], scope["raw_path"])
        progress.operation = prepared.operation
        if prepared.is_public:
            self._public_rates.spend(prepared.operation.pace, progress.address)
        else:
            certificate, login = scope.get("client_certificate"), prepared.operation.login
            if login is None:
                progress.caller = await authenticate(self._services.verifier, headers, certificate)
            else:
                progress.caller = await login.authenticate(self._services, headers, progress.address, certificate)
            self._authorize(progress, prepared.scope)
            # A token without the scope is refused first and costs nothing of the holder's rate.
            if self._rates is not None:
                self._rates.spend(progress.caller)
            if self._refusal_pace.owing_until_s:
                self._refusal_pace.refuse_owing(progress.caller.holder_id, progress.started_s)
        party = current_party.get()
        # Not reads: one may wait for events for half a minute and costs nothing meanwhile.
        is_admitted = prepared.has_body and not prepared.is_public
        admission = self._admission if is_admitted else None
        if admission is not None:
            admission.enter(party)
        try:
            raw_body = await receive_body(headers, receive, prepared.operation.body_max) if prepared.has_body else b""
            request = self._decode(progress, prepared, raw_parameters, raw_body)
            if _FORMER_ACCOUNT in headers and not prepared.is_public:
                request = await self._read_as_former(prepared, request, headers[_FORMER_ACCOUNT].decode("latin-1"))
            if prepared.is_long(request.query):
                # Long requests take turns among themselves first, so that short ones pass them.
                async with self._turns.hold_long(party):
                    answer = await self._handle(prepared, request, party)
            else:
                answer = await self._handle(prepared, request, party)
            # A request that waits for events has no turn meanwhile.
            return await answer.answer(partial(self._turns.hold, party)) if type(answer) is Later else answer
        finally:
            if admission is not None:
                admission.leave(party)

    async def _read_as_former(
        self, prepared: PreparedOperation, request: Request[Any, Any, Any], account_number: str
    ) -> Request[Any, Any, Any]:
        if prepared.is_change:
            raise errors.BadRequest("X-Account-Number: only reads take it: a former account accepts no new requests")
        caller = await read_as_former(self._services.context, request.caller, account_number)
        return structs.replace(request, caller=caller)

    def _authorize(self, progress: _Progress, scope: str | None) -> None:
        """Set the caller for logs and fair shares; it must have the scope."""
        current_request.set((progress.request_id, progress.caller.holder_id))
        current_party.set(progress.caller.holder_id)
        if scope is not None:
            authorize(progress.caller, scope)

    def _decode(
        self, progress: _Progress, prepared: PreparedOperation, raw_parameters: Sequence[bytes], raw_body: bytes
    ) -> Request[Any, Any, Any]:
        caller, headers, raw_query = progress.caller, progress.headers, progress.scope["query_string"]
        began_s = self._monotonic_s()
        try:
            parameter, query, body = prepared.decode(raw_parameters, raw_query, raw_body, headers)
        except errors.Refusal:
            # Nothing else ran meanwhile. Reading the thread's own CPU time would cost each request 1 to 4 us.
            progress.cost_s = self._monotonic_s() - began_s
            raise
        if len(raw_body) >= READ_SLOWLY_MAX:
            # Its handler may refuse it for its contents.
            progress.cost_s = self._monotonic_s() - began_s
        if prepared.is_change:
            sender = read_sender(headers, progress.peer, self._services.trusted_proxies)
            caller = caller.asking(sender, progress.request_id, progress.scope.get(TRACEPARENT))
        return Request(
            caller=caller,
            parameter=parameter,
            query=query,
            body=body,
            address=progress.address,
            headers=headers,
            certificate=progress.scope.get("client_certificate"),
            certified_name=progress.scope.get("client_name"),
        )

    async def _handle(self, prepared: PreparedOperation, request: Request[Any, Any, Any], party: Hashable) -> object:
        """Call the handler when it is the party's turn on the event loop."""
        if not self._turns.acquire_now(party):
            await self._turns.acquire(party)
        try:
            answer = await prepared.operation.handler(self._services, request)
            if type(answer) is Listing:
                return await envelope.write_items(cast("Listing[object]", answer))
            return answer
        finally:
            self._turns.release(party)

    def find_operation(self, scope: Scope) -> AnyOperation | None:
        """The operation of a request; ``None`` if it does not exist."""
        try:
            return self._router.find(scope["method"], scope["raw_path"])[0].operation
        except errors.PixConnectError:
            return None

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        """Refuse without a task if the process is full or the caller owes a wait; ``None`` if ``__call__`` is needed."""
        if not (self._admission.is_full or self._refusal_pace.owing_until_s) or self._rates is not None:
            return None
        headers = cast("Mapping[bytes, bytes]", scope["headers_by_name"] or {})
        caller = self._services.verifier.recall(headers.get(b"authorization", b""))
        if caller is None:
            return None
        started_s = self._monotonic_s()
        try:
            prepared, _ = self._router.find(scope["method"], scope["raw_path"])
            check_certificate(caller, scope["client_certificate"])
            if prepared.scope is not None:
                authorize(caller, prepared.scope)
        except errors.PixConnectError:
            return None
        is_another_login = prepared.is_public or prepared.operation.login is not None
        found = None if is_another_login else self._find_refusal(prepared, caller.holder_id, started_s)
        if found is None:
            return None
        refusal, delay_s = found
        request_id = envelope.choose_request_id(headers.get(b"x-request-id"), self._entropy)
        refused = prepared.operation.refusals.write(refusal, request_id, self._now())
        self._count(prepared.operation, refused.status, self._monotonic_s() - started_s)
        if self._access_log.wants(refused.status):
            progress = _Progress(scope, headers, self._services.trusted_proxies, request_id, started_s)
            progress.operation, progress.caller = prepared.operation, caller
            self._note_access(progress, refused.status, refusal)
        own_headers = [*refusal_headers(refused), (b"x-request-id", request_id.encode())]
        own_headers.append((b"content-length", b"%d" % len(refused.content)))
        return WholeAnswer(refused.status, own_headers, refused.content, delay_s)

    def _find_refusal(
        self, prepared: PreparedOperation, holder_id: int, now_s: float
    ) -> tuple[errors.PixConnectError, float] | None:
        """Find why a request is refused without a task, and in how many seconds."""
        pace = self._refusal_pace
        try:
            pace.refuse_owing(holder_id, now_s)
        except errors.RateLimited as owing:
            return owing, pace.delay_s(holder_id, now_s)
        # Last, since it counts this request.
        if prepared.has_body and self._admission.refuses(holder_id) and pace.is_due_now(holder_id, now_s):
            return errors.ServiceUnavailable(TOO_MANY), 0.0
        return None

    def _find_delay_s(self, progress: _Progress, status: int) -> float:
        """Find how long to delay a refusal, which is 0 unless this party gets many of them."""
        is_known = progress.caller is not NOBODY
        interval_s = self._refusal_pace.interval_s(status, progress.cost_s, is_known=is_known)
        if not interval_s:
            return 0.0
        party: Hashable = progress.caller.holder_id
        if not party:
            # While the database is unreachable no caller can be authorized, and a shared address would wait for all its
            # callers.
            authorization = progress.headers.get(b"authorization")
            party = (authorization and self._services.verifier.recall_party(authorization)) or progress.address
        is_costly = is_known and progress.cost_s > 0
        return self._refusal_pace.delay_s(party, self._monotonic_s(), interval_s, is_costly=is_costly)

    def _note_access(self, progress: _Progress, status: int, result: object) -> None:
        operation, caller, scope = progress.operation, progress.caller, progress.scope
        self._access_log.append(
            operation=operation.id if operation else "",
            method=scope["method"],
            path=operation.path if operation else "",
            status=status,
            duration_ms=(self._monotonic_s() - progress.started_s) * 1000,
            request_id=progress.request_id,
            holder_id=caller.holder_id or None,
            client_id=caller.client_id or None,
            peer=progress.address if self._services.trusted_proxies else progress.peer,
            target=scope["raw_path"],
            result=result,
        )

    def _count(self, operation: AnyOperation | None, status: int, duration_s: float) -> None:
        operation_id = operation.id if operation else ""
        self.answers[operation_id, status] += 1
        if operation_id:
            self.durations_s[operation_id].observe(duration_s)


def make_application(services: Services, access_log: AccessLog | RequestLines) -> Application:
    routes, standby = list_routes(is_sandbox=services.context.policy.is_sandbox), services.standby
    if standby is not None:
        routes = tuple(read_at_standby(row, standby, services) if row.may_be_old else row for row in routes)
    return Application(services, routes, access_log)


def _refusal(error: Exception, progress: _Progress) -> errors.PixConnectError:
    if isinstance(error, _DATABASE_GONE) and not is_of_own_file(error):
        _log.warning("the database gives no answer", error=type(error).__name__)
        error = errors.ServiceUnavailable(explain_undone(error))
    elif isinstance(error, DATABASE_REFUSES):
        # The original message names the table, for the operator who can restore the right.
        _log.critical("the database refuses the service a right: run `pixconnect migrate`", error=str(error))
        error = errors.ServiceUnavailable(explain_undone(error))
    elif not isinstance(error, errors.PixConnectError) and lacks_memory(error):
        _log.error("no memory is left", operation=progress.operation.id if progress.operation else None)
        if progress.scope["method"] not in _READING:
            # Calls made before it ran out may have taken effect.
            return errors.OutcomeUnknown("the service ran out of memory on the way: look, or repeat the request")
        error = errors.ServiceUnavailable("the service has no memory left")
    # Such as reading the written rows for the answer.
    if isinstance(error, errors.ServiceUnavailable) and has_written.get():
        return errors.OutcomeUnknown("it was written, and the result cannot be read now: look, or repeat the request")
    if isinstance(error, errors.PixConnectError):
        return error
    # An internal defect: the caller gets no details, the log gets all of them.
    operation_id = progress.operation.id if progress.operation else None
    _log.error("request failed", operation=operation_id, exc_info=error)
    return errors.InternalError("internal error")
