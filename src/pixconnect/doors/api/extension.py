"""A feature's additions to an API process, besides operations."""

from __future__ import annotations

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

    def take_sockets(
        self, application: Answering, sockets: Sequence[socket.socket]
    ) -> tuple[list[socket.socket], list[Tls]]:
        """Return the sockets that are not the feature's, and their server."""
        return list(sockets), []


class ApiExtensionRow(Struct, frozen=True, kw_only=True):
    open: Callable[[Settings, Context], AbstractAsyncContextManager[ApiExtension]]
