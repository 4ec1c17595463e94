"""The shapes of ASGI, as far as our applications and our server speak it.

Our server adds ``headers_by_name`` to a scope: the headers as a dictionary, where none of them came twice. It needs it
itself, and spares the application another.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
