"""The console in this process on a test service, with the requests of a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from pixconnect.assembly import pages
from pixconnect.doors.console.application import Console
from pixconnect.doors.console.exports import Exports
from pixconnect.doors.console.visit import Assets, ConsoleParts
from pixconnect.features.identity.service import access, console_session
from pixconnect.features.identity.service.console_session import NewSession, OperatorSignIn, SignIn
from pixconnect.features.identity.service.token_issuer import TokenRequest
from pixconnect.features.monitoring.service.health import HealthWatch, check_database
from pixconnect.kernel.feature import FeatureParts
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.rules.access import SCOPES, IssuedClient, Visitor
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.pool import Pool
from pixconnect.platform.privileges import CONSOLE_ROLE
from support.api import Answer
from support.kept_pools import kept_pools
from support.operators import as_operator
from support.service import Service

HOST = "console.example"
_COOKIE = "pixconnect_9080"


class Browser(Struct, frozen=True, kw_only=True):
    """A client of a console, with the cookie of a session after signing in."""

    console: Console
    session: NewSession | None = None
    address: str = "203.0.113.9"

    def of(self, session: NewSession) -> Browser:
        return msgspec.structs.replace(self, session=session)

    @property
    def who(self) -> Visitor:
        assert self.session is not None, "it has signed in"
        return self.session.visitor

    async def get(self, target: str, **headers: str) -> Answer:
        return await self.ask("GET", target, headers)

    async def post(self, target: str, fields: Mapping[str, str | list[str]] | None = None, **headers: str) -> Answer:
        own = {} if self.session is None else {"csrf": self.session.visitor.csrf_token}
        body = urlencode(own | dict(fields or {}), doseq=True, errors="surrogatepass").encode()
        return await self.ask("POST", target, headers, body)

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes | list[bytes] = b""
    ) -> Answer:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await self.console(self._scope(method, target, headers or {}, body), _receiver(body), send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], sent[0]["headers"], content)

    async def answer(self, context: Any, language: str) -> None:
        """Answer all requests of a browser's context, whose ``base_url`` is ``http://`` and ``HOST``."""

        async def fulfil(route: Any) -> None:
            request = route.request
            target, sent = request.url.removeprefix(f"http://{HOST}"), (request.post_data or "").encode()
            answered = await self.ask(request.method, target, {"accept-language": language}, sent)
            await route.fulfill(status=answered.status, headers=answered.headers, body=answered.content)

        await context.route("**/*", fulfil)

    @asynccontextmanager
    async def following(self, target: str) -> AsyncIterator[list[bytes]]:
        """Follow a page while the block runs; yields the updates received so far."""
        told: list[bytes] = []

        async def send(message: Any) -> None:
            told.append(message.get("body", b""))

        scope = self._scope("GET", target, {"accept": "text/event-stream"}, b"")
        task = asyncio.create_task(self.console(scope, _receiver(b""), send))
        try:
            while not any(told) and not task.done():  # noqa: ASYNC110 - a list has no event to await
                await asyncio.sleep(0.005)
            yield told
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _scope(self, method: str, target: str, headers: Mapping[str, str], body: bytes | list[bytes]) -> dict[str, Any]:
        path, _, query = quote(target, safe="/?&=%+,;:!$'()*~@", errors="surrogatepass").partition("?")
        given = {"host": HOST, "origin": f"http://{HOST}", "content-type": "application/x-www-form-urlencoded"}
        if isinstance(body, bytes):
            given["content-length"] = str(len(body))
        if self.session is not None:
            given["cookie"] = f"{_COOKIE}={self.session.token}"
        return dict(
            type="http",
            http_version="1.1",
            method=method,
            raw_path=path.encode(),
            query_string=query.encode(),
            headers=[(name.encode(), value.encode("latin-1")) for name, value in (given | dict(headers)).items()],
            client=(self.address, 5),
        )


class InProcess(Struct, frozen=True, kw_only=True):
    service: Service
    operator: Operator  # a connection with the role of the console, and no other rights
    parts: ConsoleParts
    console: Console
    nobody: Browser

    async def audited(self) -> list[tuple[str, str]]:
        """The console's rows of the audit as verb and subject, in order."""
        rows = await self.operator.pool.fetch("select verb, subject from audit where operator <> 'tests' order by id")
        return [(row["verb"], row["subject"]) for row in rows]


@asynccontextmanager
async def open_console(
    service: Service, of_features: Mapping[type, object] = MappingProxyType({}), **parts: Any
) -> AsyncIterator[InProcess]:
    """A keyword changes one of the parts; ``of_features`` replaces parts of features."""
    kept = kept_pools.take(service.database.owner_url, role=CONSOLE_ROLE, connections_max=4, name="test console")
    async with kept as pool:
        console = _make(service, pool, of_features, parts)
        try:
            yield console
        finally:
            console.parts.exports.forget_all()


async def sign_in(console: InProcess, role: Any, name: str = "") -> NewSession:
    """Sign in with an operator's account, by one of its recovery codes."""
    return await add_and_sign_in(as_operator(console.service.context), console.parts, role, name)


async def add_and_sign_in(adding: Operator, parts: ConsoleParts, role: Any, name: str = "") -> NewSession:
    """The same without a console yet; ``adding`` may add accounts."""
    name = name or role
    issued = await console_session.add_operator(adding, name, role)
    asked = OperatorSignIn(name=name, password=issued.password, code=issued.recovery_codes[0], address="192.0.2.1")
    return await parts.of_features[SignIn].operator(asked)


async def issue_client(console: InProcess, holder_id: int, *scopes: Any) -> IssuedClient:
    return await access.create_client(as_operator(console.service.context), holder_id, "shop", scopes or SCOPES)


async def sign_in_as(console: InProcess, issued: IssuedClient) -> NewSession:
    asked = TokenRequest(client_id=issued.client.client_id, client_secret=issued.client_secret, address="192.0.2.1")
    return await console.parts.of_features[SignIn].client(asked)


async def sign_in_client(console: InProcess, holder_id: int, *scopes: Any) -> NewSession:
    """A new client's session."""
    return await sign_in_as(console, await issue_client(console, holder_id, *scopes))


def _make(service: Service, pool: Pool, of_features: Mapping[type, object], changes: Mapping[str, Any]) -> InProcess:
    context = service.context
    operator = Operator(
        pool=pool, clock=context.clock, entropy=context.entropy, policy=context.policy, secret_box=context.secret_box,
        operator="console",
    )  # fmt: skip
    parts = make_parts(context, operator)
    parts = msgspec.structs.replace(parts, of_features=parts.of_features | of_features, **changes)
    console = Console(parts, pages.ROUTES, lambda: None)
    return InProcess(service=service, operator=operator, parts=parts, console=console, nobody=Browser(console=console))


def make_parts(context: Context, operator: Operator) -> ConsoleParts:
    turns = Turns()
    health = HealthWatch({"database": partial(check_database, context.pool)}, context.clock)
    return ConsoleParts(
        context=context,
        operator=operator,
        find_visitor=console_session.find_session,
        of_features=FeatureParts({SignIn: SignIn(operator), HealthWatch: health}),
        assets=Assets(),
        exports=Exports(turns),
        turns=turns,
        hosts=frozenset({HOST}),
        draw_qr=lambda _: b"",
        base_url=f"http://{HOST}",
        cookie_name=_COOKIE,
        api_url="http://api.example",
        auth_url="http://api.example",
        version="0",
        menu=pages.MENU,
        trusted_proxies=(),
    )


def _receiver(body: bytes | list[bytes]) -> Any:
    waiting = list(body) if isinstance(body, list) else [body]

    async def receive() -> Any:
        if not waiting:
            return {"type": "http.disconnect"}
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    return receive
