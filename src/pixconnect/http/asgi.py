"""The types of ASGI, as far as our applications and our server use it.

Our server adds to a scope ``headers_by_name``, the headers as a dictionary, or ``None`` if one of them came twice; and
``client_certificate``, the thumbprint of the certificate that the client showed, or ``None``.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

HTTP: Final = "http"
REQUEST: Final = "http.request"
DISCONNECT: Final = "http.disconnect"
RESPONSE_START: Final = "http.response.start"
RESPONSE_BODY: Final = "http.response.body"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
