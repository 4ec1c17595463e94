"""What surrounds the application: a feature's additions to an API process, besides operations; and the port for TLS."""

import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct

from pixconnect.doors.api.operation import AnyOperation
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.config import Settings
from pixconnect.platform.http.exchange import Receive, Scope, Send, WholeAnswer
from pixconnect.platform.http.tls import Tls

_FORWARDED = b"x-forwarded-for"

FindOperation = Callable[[Scope], AnyOperation | None]


class Answering(Protocol):
    """The application, or a wrapper of it."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]: ...

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None: ...


class ApiExtension:
    """A feature overrides what it adds."""

    @property
    def parts(self) -> Mapping[type, object]:
        """For ``Services.of_features``."""
        return {}

    def wrap(self, application: Answering, find_operation: FindOperation) -> Answering:
        return application

    def take_sockets(self, application: Answering, sockets: Sequence[socket.socket]) -> tuple[list[socket.socket], list[Tls]]:
        """Return the sockets that are not the feature's, and their server."""
        return list(sockets), []


class ApiExtensionRow(Struct, frozen=True, kw_only=True):
    open: Callable[[Settings, Context], AbstractAsyncContextManager[ApiExtension]]


class TlsDoor:
    """The application behind our port for TLS.

    No header identifies the client there, because a proxy before it passes octets on and writes none: such a header comes from
    the client.
    """

    def __init__(self, application: Answering) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(_without_hops(scope), receive, send)

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        return self._application.answer_at_once(_without_hops(scope))


def _without_hops(scope: Scope) -> Scope:
    if all(name != _FORWARDED for name, _ in scope["headers"]):
        return scope
    left = [header for header in scope["headers"] if header[0] != _FORWARDED]
    by_name = dict(left)
    return {**scope, "headers": left, "headers_by_name": by_name if len(by_name) == len(left) else None}
