"""A listener of one face: what libraries ask for below ``/`` is looked for below the face's prefix.

Our own port for TLS: no header says who asks there, because whatever stands before it passes octets on and writes none.

A proxy on this machine may well be trusted on the plain port. Here what looks like its header was written by the client.
"""

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


_FORWARDED = b"x-forwarded-for"


class TlsDoor:
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
