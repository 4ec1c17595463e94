"""The console as one ASGI application: the door before its pages, and what is said when something goes wrong.

::

    400 host ► 403 origin (forms) ► sign-in ► (page: 403 scope, 404, 422, 503)

A page is a function from a visit to an answer. Each answer tells browsers what it may do: run our script, use our style
sheet, send forms to us, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from pixconnect.console.parts import ConsoleParts
from pixconnect.console.visit import Visit, read_visit
from pixconnect.domain import errors
from pixconnect.domain.console import Visitor
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.http.asgi import RESPONSE_START, Message, Receive, Scope, Send
from pixconnect.usecases import console_session

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
STREAMS_MAX: Final = 64
"""Live pages of one process; one more is shown as it is, and loads again by itself."""
LOOK_S: Final = 2.0
"""How often a live page is made again while somebody looks at it."""
STREAM_S: Final = 600.0
"""The browser connects again after this long."""

_EVENTS: Final = "text/event-stream"
_SAFE_METHODS: Final = {"GET", "HEAD"}

# What each refusal is called on a page, by its code; the reason stands below it.
_STATUSES: Final = {
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.BadRequest: 400,
    errors.RateLimited: 429,
    errors.ServiceUnavailable: 503,
    errors.OutcomeUnknown: 504,
    errors.InternalError: 500,
}

Page = Callable[[Visit], Awaitable[Response]]
_log = structlog.get_logger(__name__)


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One page: where it is and what makes it."""

    path: str
    page: Page
    method: str = "GET"
    is_public: bool = False
    """Whether it is there before one has signed in."""


class Console:
    """Answers requests.

    Args:
        routes: All pages.
        use: Called at each request, so that somebody can see how long nobody has been here.
    """

    def __init__(self, parts: ConsoleParts, routes: Sequence[PageRoute], use: Callable[[], None]) -> None:
        self._parts = parts
        self._use = use
        self._streams_count = 0
        table = [Route(row.path, self._open(row), methods=[row.method]) for row in routes]
        table.append(Route("/assets/{name}", self._asset))
        self._app = Starlette(routes=table, exception_handlers={HTTPException: self._refuse_route})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._use()
        started_s = self._parts.context.clock.monotonic_s()

        async def send_on(message: Message) -> None:
            if message["type"] == RESPONSE_START:
                took_ms = (self._parts.context.clock.monotonic_s() - started_s) * 1000
                message["headers"] = [*message["headers"], *self._own_headers(message["headers"], took_ms)]
            await send(message)

        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
        # A page elsewhere whose name was made to lead here would be this console to a browser.
        if host not in self._parts.hosts:
            answer = PlainTextResponse(f"This console is not called {host!r}.\n", 400)
            await answer(_complete(scope, host, self._parts), receive, send_on)
            return
        await self._app(_complete(scope, host, self._parts), receive, send_on)

    def _own_headers(self, headers: Sequence[tuple[bytes, bytes]], took_ms: float) -> list[tuple[bytes, bytes]]:
        own = [
            (b"content-security-policy", POLICY.encode()),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"server-timing", b"page;dur=%.1f" % took_ms),
        ]
        if not any(name == b"cache-control" for name, _ in headers):
            own.append((b"cache-control", b"no-store"))
        return own

    def _open(self, row: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visit = read_visit(request, self._parts, None)
            try:
                if request.method not in _SAFE_METHODS:
                    _check_origin(request, self._parts)
                visitor = await self._find_visitor(request)
                visit = msgspec.structs.replace(visit, visitor=visitor)
                if visitor is None and not row.is_public:
                    return _lead_to_door(request)
                if _EVENTS in request.headers.get("accept", "") and visitor is not None:
                    return self._stream(visit, row.page)
                return await row.page(visit)
            except Exception as error:  # noqa: BLE001  whatever happens, a page
                return refuse(visit, error)

        return answer

    async def _find_visitor(self, request: Request, *, is_used: bool = True) -> Visitor | None:
        token = request.cookies.get(self._parts.cookie_name)
        if token is None:
            return None
        return await console_session.find_session(self._parts.operator, token, is_used=is_used)

    def _stream(self, visit: Visit, page: Page) -> Response:
        if self._streams_count >= STREAMS_MAX:
            raise errors.ServiceUnavailable("too many pages are open: this one does not follow by itself")
        return StreamingResponse(self._follow(visit, page), media_type=_EVENTS)

    async def _follow(self, visit: Visit, page: Page) -> AsyncGenerator[bytes]:
        """The live part of a page, each time that it has changed."""
        visit = msgspec.structs.replace(visit, is_part=True)
        until_s, shown = self._parts.context.clock.monotonic_s() + STREAM_S, b""
        self._streams_count += 1
        try:
            while self._parts.context.clock.monotonic_s() < until_s:
                self._use()
                try:
                    # A page that is only left open keeps no session from ending, and one that has ended shows nothing more.
                    visitor = await self._find_visitor(visit.request, is_used=False)
                    if visitor is None:
                        return
                    visit = msgspec.structs.replace(visit, visitor=visitor)
                    content = bytes((await page(visit)).body)
                except (errors.PixConnectError, *DATABASE_FAILED):
                    # The browser keeps what it has and asks again.
                    return
                if content != shown:
                    shown = content
                    lines = b"".join(b"data: " + line + b"\n" for line in content.split(b"\n"))
                    yield b"event: part\n" + lines + b"\n"
                await asyncio.sleep(LOOK_S)
        finally:
            self._streams_count -= 1

    async def _asset(self, request: Request) -> Response:
        found = self._parts.assets.find(request.path_params["name"])
        return found or PlainTextResponse("There is no such file.\n", 404)

    async def _refuse_route(self, request: Request, error: Exception) -> Response:
        visit = read_visit(request, self._parts, None)
        try:
            visit = msgspec.structs.replace(visit, visitor=await self._find_visitor(request))
        except Exception as failure:  # noqa: BLE001  the page is refused all the same
            return refuse(visit, failure)
        return refuse(visit, errors.NotFound("there is no such page"))


def refuse(visit: Visit, error: Exception) -> Response:
    """The page that says what went wrong; of a defect of ours the log learns everything, and the page nothing."""
    if isinstance(error, DATABASE_FAILED):
        error = errors.ServiceUnavailable("the database gives no answer")
    # So Starlette calls a form that is too large, or none.
    elif isinstance(error, HTTPException):
        error = errors.BadRequest("the form cannot be read, or is too large")
    elif not isinstance(error, errors.PixConnectError):
        _log.error("page failed", path=visit.request.url.path, exc_info=error)
        error = errors.InternalError("internal error")
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 422)
    headers = {"retry-after": "60"} if status == 429 else None
    whole = msgspec.structs.replace(visit, is_part=False)
    return whole.page("error.html", status=status, headers=headers, error_status=status, reason=str(error))


def _check_origin(request: Request, parts: ConsoleParts) -> None:
    """Refuse a form that another site has sent, whatever it holds."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    scheme = "https" if parts.is_secure else "http"
    is_ours = origin == f"{scheme}://{request.headers['host'].lower()}"
    if not (is_ours and site in {None, "same-origin"}):
        raise errors.Forbidden("this form was not sent from the console")


def _lead_to_door(request: Request) -> Response:
    if request.method not in _SAFE_METHODS:
        return RedirectResponse("/sign-in?said=session_over", 303)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query: dict[str, Any] = {} if wanted == "/" else {"next": wanted}
    return RedirectResponse("/sign-in" + (f"?{urlencode(query)}" if query else ""), 303)


def _complete(scope: Scope, host: str, parts: ConsoleParts) -> Scope:
    """Our server's scope with what Starlette needs of it besides."""
    name, _, port = host.rpartition(":")
    return dict(scope) | dict(
        # By 2.4 a server raises, or cancels, where nobody listens any more; before it Starlette would ask in a loop.
        asgi=dict(version="3.0", spec_version="2.4"),
        path=unquote(quote(scope["raw_path"], safe="/%:@!$&'()*+,;=~-._")),
        root_path="",
        scheme="https" if parts.is_secure else "http",
        server=(name or host, int(port) if port.isdecimal() else None),
    )
