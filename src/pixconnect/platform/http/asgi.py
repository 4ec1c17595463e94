"""The types of ASGI, as far as our applications and our server use it.

Our server adds to a scope ``headers_by_name``, the headers as a dictionary, or ``None`` if one of them came twice; and
``client_certificate``, the thumbprint of the client's certificate, or ``None``, with its name in ``client_name``. Where traces
are sent ``traceparent`` is the one that the request belongs to. It asks an application that is ``Prompt`` for an answer before
it makes a task of a request.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

HTTP: Final = "http"
REQUEST: Final = "http.request"
DISCONNECT: Final = "http.disconnect"
RESPONSE_START: Final = "http.response.start"
RESPONSE_BODY: Final = "http.response.body"
TRACEPARENT: Final = "traceparent"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class WholeAnswer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@runtime_checkable
class Prompt(Protocol):
    """An application that has some answers at once."""

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        """The whole answer to a request whose body need not be read; ``None`` where the application must be called."""
        ...
