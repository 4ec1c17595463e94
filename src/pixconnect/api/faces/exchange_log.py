"""What was asked at faces and what was answered, for ``pixconnect face log``: secrets are never written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
from msgspec import Struct

from pixconnect.api.faces.door import Answering
from pixconnect.api.faces.frame import PREFIX, split_path
from pixconnect.api.faces.secret_mask import READ_MAX, mask_body, mask_query
from pixconnect.domain.frame.clock import Clock, format_milliseconds
from pixconnect.http.asgi import RESPONSE_START, Message, Receive, Scope, Send, WholeAnswer

_PREFIX: Final = PREFIX.encode()


class FaceExchange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: str
    method: str
    path: str
    """Below the face's prefix, with its query."""
    asked: str = ""
    """The first octets of the body; without its secrets, as all here."""
    status: int
    answered: str = ""


class FaceLog:
    """The application, with a line written of each exchange at a face.

    Args:
        write: Gets the face's name and the line.
    """

    def __init__(self, application: Answering, clock: Clock, write: Callable[[str, bytes], None]) -> None:
        self._application = application
        self._clock = clock
        self._write = write

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        return self._application.answer_at_once(scope)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        # Most requests are of the other doors, and cost a look at their path alone.
        if scope["raw_path"].startswith(_PREFIX):
            return self._note(scope, receive, send)
        return self._application(scope, receive, send)

    async def _note(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, answered, status = bytearray(), bytearray(), 0

        async def receive_noting() -> Message:
            message = await receive()
            _keep(asked, message)
            return message

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == RESPONSE_START:
                status = message["status"]
            else:
                _keep(answered, message)
            await send(message)

        try:
            await self._application(scope, receive_noting, send_noting)
        finally:
            face, path = split_path(scope["raw_path"])
            query: bytes = scope["query_string"]
            if path.endswith("token"):
                # All that is said there is a secret, in more forms than can be known.
                asked, answered, query = bytearray(), bytearray(), b""
            exchange = FaceExchange(
                at=format_milliseconds(self._clock.now()),
                method=scope["method"],
                path=f"{path}?{mask_query(query)}" if query else path,
                asked=mask_body(asked),
                status=status,
                answered=mask_body(answered),
            )
            self._write(face, msgspec.json.encode(exchange))


def _keep(kept: bytearray, message: Message) -> None:
    # One more than can be read tells that there was more.
    kept += message.get("body", b"")[: READ_MAX + 1 - len(kept)]
