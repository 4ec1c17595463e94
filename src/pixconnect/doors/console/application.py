"""The console as one ASGI application: sign-in before its pages, and the pages for errors.

::

    400 host ► 414 ► 429 ► 403 origin (forms) ► sign-in ► 413 (forms) ► 503 full ► (page: 403 scope, 404, 422, 503)

A page is a function from a visit to an answer. Each answer limits the browser: run our script, use our style sheet, send forms
to us, and nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote, urlencode

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from pixconnect.doors.console import filters
from pixconnect.doors.console.forms import DOOR_FIELDS_MAX, DOOR_SIZE_MAX, read_form
from pixconnect.doors.console.paces import ACTS, REFUSED_LINES, SIGN_INS, Paces, Streams
from pixconnect.doors.console.visit import ConsoleParts, Visit, is_own_address, read_visit
from pixconnect.kernel.flows import holder
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.rules.access import Visitor
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform import outgoing_text
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import RatePolicy
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.flow.overload import Admission
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.http.exchange import RESPONSE_START, Message, Receive, Scope, Send
from pixconnect.platform.outgoing_text import cut_text

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
UNDER_WAY_MAX: Final = 64  # maximum of pages in work; beyond it, a party that has one in work already waits for it
ADDRESS_LENGTH_MAX: Final = 4 * 1024
HOST_SHOWN_MAX: Final = 100
LIMITED_AFTER_S: Final = 0.5  # minimum interval, per connection, of refusals to a stranger who exceeds the rate
LOOK_S: Final = 2.0  # how often a live page is rendered again while a visitor follows it
STREAM_S: Final = 600.0  # the browser connects again after this long

_EVENTS: Final = "text/event-stream"
_COME_LATER: Final = b"retry: 60000\n\n"
_SAFE_METHODS: Final = {"GET", "HEAD"}
_TOLD_SHORTLY: Final = {413, 429}

# The title of each refusal's page, by its code; the reason is below it.
_STATUSES: Final = {
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.BadRequest: 400,
    errors.PayloadTooLarge: 413,
    errors.RateLimited: 429,
    errors.ServiceUnavailable: 503,
    errors.OutcomeUnknown: 504,
    errors.InternalError: 500,
}

Page = Callable[[Visit], Awaitable[Response]]
_log = structlog.get_logger(__name__)


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    page: Page
    method: str = "GET"
    is_public: bool = False  # whether it is available before sign-in
    is_sign_in: bool = False  # whether its form may begin a session
    is_file: bool = False
    may_be_old: bool = False  # whether a standby may be read from: never where a visitor sees the result of an act
    # The page of a form with the error at its field and the typed values; otherwise an error page alone.
    refused: Callable[[Visit, errors.PixConnectError, int], Awaitable[Response]] | None = None
    pace: RatePolicy | None = None  # its rate limit per party, if it costs more than usual


class OverviewPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the first page."""

    template: str
    find: Callable[[Visit], Awaitable[object]]  # its template's ``found``; a false one hides the part
    is_waiting: bool = False  # whether it is a task that waits for a person


class Console:
    """Answers requests; calls ``use`` at each, so that the process can end after a long time without visitors."""

    def __init__(self, parts: ConsoleParts, routes: Sequence[PageRoute], use: Callable[[], None]) -> None:
        self._parts = parts
        self._use = use
        self._paces = Paces(parts.context.clock)
        self._streams = Streams()
        self._turns = parts.turns
        self._admission = Admission(UNDER_WAY_MAX)
        self.refused_acts: Counter[tuple[str, str]] = Counter()
        """Refused acts, by the path of the form and the code of the refusal; for the metrics."""
        rows = [row if parts.standby is None else _read_at_standby(row, parts, parts.standby) for row in routes]
        table = [Route(row.path, self._open(row), methods=[row.method]) for row in rows]
        table.append(Route("/assets/{name}", self._asset))
        self._app = Starlette(routes=table, exception_handlers={HTTPException: self._refuse_route})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._use()
        started_s = self._parts.context.clock.monotonic_s()

        async def send_on(message: Message) -> None:
            if message["type"] == RESPONSE_START:
                took_ms = (self._parts.context.clock.monotonic_s() - started_s) * 1000
                headers = message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", POLICY.encode()),
                    (b"cross-origin-opener-policy", b"same-origin"),
                    (b"server-timing", b"page;dur=%.1f" % took_ms),
                ]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
        # DNS rebinding: to a browser, a foreign name that resolves here would be this console.
        if host not in self._parts.hosts:
            await PlainTextResponse(f"This console is not called {host[:HOST_SHOWN_MAX]!r}.\n", 400)(scope, receive, send_on)
        elif len(scope["raw_path"]) + len(scope["query_string"]) > ADDRESS_LENGTH_MAX:
            await PlainTextResponse("This address is too long.\n", 414)(scope, receive, send_on)
        else:
            await self._app(_complete(scope, host, self._parts), receive, send_on)

    def _open(self, row: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visit = read_visit(request, self._parts, None)
            is_act = request.method not in _SAFE_METHODS
            try:
                # Before making any page: a stranger may request very many.
                visit = msgspec.structs.replace(visit, visitor=await self._enter(visit))
                if is_act:
                    _check_origin(request, self._parts)
                if visit.visitor is None and not row.is_public:
                    return _lead_to_door(request)
                visit = await self._name_holder(visit)
                if row.pace is not None:
                    self._paces.spend(row.pace, visit.who.party)
                if is_act:
                    visit = msgspec.structs.replace(visit, sent=await self._read_form(visit, row))
                # Repeating an act here would execute it at each poll, and a file is not a page to follow.
                wants_events = _EVENTS in request.headers.get("accept", "")
                if request.method == "GET" and not row.is_file and visit.visitor is not None and wants_events:
                    return StreamingResponse(self._follow(visit, row.page), media_type=_EVENTS)
                return await self._make(visit, row.page)
            except Exception as error:  # noqa: BLE001  in any case, a page
                await _slow_down(visit, error)
                if is_act:
                    self._note_refused(visit, row, error)
                if row.refused is not None and isinstance(error, errors.BadRequest | errors.RuleBroken):
                    return await row.refused(visit, error, _status_of(error))
                return refuse(visit, error)

        return answer

    async def _enter(self, visit: Visit) -> Visitor | None:
        """Authenticate the visitor. A stranger is counted before the database is queried."""
        token = visit.request.cookies.get(self._parts.cookie_name)
        current_party.set(visit.address)
        self._paces.check_stranger(token, visit.address)
        visitor = await self._find_visitor(token)
        if visitor is not None:
            current_party.set(visitor.party)
        return visitor

    async def _name_holder(self, visit: Visit) -> Visit:
        """The same with the holder's name; a holder that does not exist would look like one who has nothing.

        Where there is only one holder, it is chosen.
        """
        if visit.visitor is None:
            return visit
        if visit.holder_id is None:
            holders = await holder.list_holders(visit.operator, 0, 2)
            return visit.about(holders[0][0].id) if len(holders) == 1 else visit
        found = await holder.read_holder(visit.operator, visit.holder_id)
        return msgspec.structs.replace(visit, holder_name=found.name)

    async def _find_visitor(self, token: str | None, *, is_used: bool = True) -> Visitor | None:
        if token is None:
            return None
        visitor = await self._parts.find_visitor(self._parts.operator, token, is_used=is_used)
        if visitor is None:
            self._paces.note_over(token)
        else:
            self._paces.note_good(token)
        return visitor

    async def _read_form(self, visit: Visit, row: PageRoute) -> FormData:
        # Before the form is read: a client that sends very many gets its refusal at once.
        if row.is_sign_in:
            self._paces.spend(SIGN_INS, visit.address)
        if row.is_public:
            return await read_form(visit.request, size_max=DOOR_SIZE_MAX, fields_max=DOOR_FIELDS_MAX)
        self._paces.spend(ACTS, visit.who.party)
        return await read_form(visit.request)

    async def _make(self, visit: Visit, page: Page) -> Response:
        """Make a page when it is its party's turn."""
        party = current_party.get()
        self._admission.enter(party)
        try:
            async with self._turns.hold(party):
                return await page(await _count(visit))
        finally:
            self._admission.leave(party)

    async def _follow(self, visit: Visit, page: Page) -> AsyncGenerator[bytes]:
        """Yield the live part of a page after each change."""
        visit, token = msgspec.structs.replace(visit, is_part=True), visit.request.cookies.get(self._parts.cookie_name)
        until_s, shown = self._parts.context.clock.monotonic_s() + STREAM_S, b""
        with self._streams.hold(visit.who.session_id, visit.who.party) as stream:
            while self._parts.context.clock.monotonic_s() < until_s and not stream.gives_way.is_set():
                self._use()
                try:
                    # An open page does not keep a session from ending, and after its end shows nothing more.
                    visitor = await self._find_visitor(token, is_used=False)
                    if visitor is None:
                        return
                    visit = msgspec.structs.replace(visit, visitor=visitor)
                    answer = await self._make(visit, page)
                except (errors.PixConnectError, *DATABASE_FAILED):
                    # The browser keeps what it has and reconnects.
                    return
                # It leads elsewhere now: there is nothing to follow here.
                if answer.status_code != 200:
                    return
                content = bytes(answer.body)
                if content != shown:
                    shown = content
                    yield outgoing_text.in_event_stream("part", content)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await stream.gives_way.wait()
            if stream.gives_way.is_set():
                # Otherwise it would take the place that it has just made.
                yield _COME_LATER

    def _note_refused(self, visit: Visit, row: PageRoute, error: Exception) -> None:
        """Count and log a refused act; the audit has executed ones. A flood does not fill the log."""
        if not isinstance(error, errors.Refusal):
            return
        who, party = (each.audit_name, each.party) if (each := visit.visitor) is not None else (None, None)
        self.refused_acts[row.path, error.code] += 1
        if self._paces.takes(REFUSED_LINES, party):
            _log.warning(
                "act refused", act=row.path, code=error.code, reason=cut_text(error.message), by=who, address=visit.address
            )

    async def _asset(self, request: Request) -> Response:
        found = self._parts.assets.find(request.path_params["name"])
        return found or PlainTextResponse("There is no such file.\n", 404)

    async def _refuse_route(self, request: Request, error: Exception) -> Response:
        visit = read_visit(request, self._parts, None)
        try:
            visit = msgspec.structs.replace(visit, visitor=await self._enter(visit))
        except Exception as failure:  # noqa: BLE001  the page is refused all the same
            await _slow_down(visit, failure)
            return refuse(visit, failure)
        return refuse(visit, errors.NotFound("there is no such page"))


async def _count(visit: Visit) -> Visit:
    """The same with the tasks that wait for a person, for the menu, which a live part and the answer to a form are without."""
    if visit.visitor is None or visit.is_part or visit.request.method not in _SAFE_METHODS:
        return visit
    entries = [*visit.menu("payments"), *visit.menu("audit")]
    counts = {each.path: await each.count(visit) for each in entries if each.count is not None}
    return msgspec.structs.replace(visit, counts=counts)


def _read_at_standby(row: PageRoute, parts: ConsoleParts, standby: Standby) -> PageRoute:
    """Return the page, made at the standby if permitted."""
    if not row.may_be_old:
        return row
    there = msgspec.structs.replace(parts, context=msgspec.structs.replace(parts.context, pool=standby.pool))

    async def make(visit: Visit) -> Response:
        return await standby.read(lambda: row.page(msgspec.structs.replace(visit, parts=there)), lambda: row.page(visit))

    return msgspec.structs.replace(row, page=make)


async def _slow_down(visit: Visit, error: Exception) -> None:
    # Otherwise a stranger's few connections would make the process refuse, and log, with much of a core.
    if visit.visitor is None and isinstance(error, errors.RateLimited):
        await asyncio.sleep(LIMITED_AFTER_S)


def refuse(visit: Visit, error: Exception) -> Response:
    """Return the error page; for an internal defect the log gets all details, and the page none."""
    if isinstance(error, DATABASE_FAILED):
        error = errors.ServiceUnavailable("the database does not answer")
    elif isinstance(error, HTTPException):
        error = errors.BadRequest("the request cannot be read")
    elif not isinstance(error, errors.PixConnectError):
        _log.error("page failed", path=cut_text(visit.request.url.path), exc_info=error)
        error = errors.InternalError("internal error")
    status = _status_of(error)
    headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, errors.RateLimited) else None
    # A page costs a hundred times as much, and a stranger may request very many.
    if visit.visitor is None and status in _TOLD_SHORTLY:
        return PlainTextResponse(f"{error}\n", status, headers)
    whole = msgspec.structs.replace(visit, is_part=False)
    # People read reais; clients of the API read cents.
    amounts = [show_reais(int(cents)) for cents in filters.CENTS.findall(str(error))]
    reason = filters.in_reais(str(error))
    bounds = dict(amount_said="".join(amounts[:1]), amount_most="".join(amounts[-1:]))
    # Back to the page of the console with the form that was sent, if one was.
    request = visit.request
    path = request.headers.get("referer", "").partition(f"://{request.headers.get('host', '')}")[2].partition("?")[0]
    back = visit.link(path) if request.method not in _SAFE_METHODS and is_own_address(path) else ""
    shown = dict(error_status=status, reason=reason, back=back) | bounds
    return whole.page("error.html", status=status, headers=headers, **shown)


def _status_of(error: Exception) -> int:
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 422)


def _check_origin(request: Request, parts: ConsoleParts) -> None:
    """Refuse a form that another site has sent, with any contents."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    scheme = "https" if parts.is_secure else "http"
    is_ours = origin == f"{scheme}://{request.headers['host'].lower()}"
    if not (is_ours and site in {None, "same-origin"}):
        raise errors.Forbidden(f"this form was not sent from the console: open it at {parts.base_url}")


def _lead_to_door(request: Request) -> Response:
    if request.method not in _SAFE_METHODS:
        return RedirectResponse("/sign-in?notice=session_over", 303)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse("/sign-in" if wanted == "/" else f"/sign-in?{urlencode({'next': wanted})}", 303)


def _complete(scope: Scope, host: str, parts: ConsoleParts) -> Scope:
    """Complete our server's scope with Starlette's additional members."""
    name, _, port = host.rpartition(":")
    return dict(scope) | dict(
        # By 2.4 a server raises, or cancels, if the client has gone; before it Starlette would poll in a loop.
        asgi=dict(version="3.0", spec_version="2.4"),
        path=unquote(quote(scope["raw_path"], safe="/%:@!$&'()*+,;=~-._")),
        root_path="",
        scheme="https" if parts.is_secure else "http",
        server=(name or host, int(port) if port.isdecimal() else None),
    )
