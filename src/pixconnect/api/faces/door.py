"""A listener of one face: what libraries ask for below ``/`` is looked for below the face's prefix."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from pixconnect.http.asgi import Receive, Scope, Send, WholeAnswer


class Answering(Protocol):
    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]: ...

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None: ...


class FaceDoor:
    def __init__(self, application: Answering, prefix: str) -> None:
        self._application = application
        self._prefix = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(self._below(scope), receive, send)

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        return self._application.answer_at_once(self._below(scope))

    def _below(self, scope: Scope) -> Scope:
        # Not every target begins with a slash: one is an asterisk alone.
        return {**scope, "raw_path": self._prefix + b"/" + scope["raw_path"].removeprefix(b"/")}
