"""The application behind our port for TLS.

No header identifies the client there, because a proxy before it passes octets on and writes none: such a header comes from the
client.
"""

from __future__ import annotations

from pixconnect.doors.api.extension import Answering
from pixconnect.platform.http.exchange import Receive, Scope, Send, WholeAnswer

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
