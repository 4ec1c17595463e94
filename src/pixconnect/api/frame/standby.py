"""Operations that may be answered from a standby: their handlers are called with connections to it, where there is one."""

from __future__ import annotations

from functools import wraps
from typing import Any, Final

from msgspec import structs

from pixconnect.api.frame.operation import AnyOperation, Later, Request
from pixconnect.api.frame.services import Services
from pixconnect.usecases.running.standby import Standby

_WANTS_NEWEST: Final = "no-cache"


def read_at_standby(row: AnyOperation, standby: Standby, services: Services) -> AnyOperation:
    """The same operation, which asks the standby first; a request with ``Cache-Control: no-cache`` never does."""
    there = structs.replace(services, context=structs.replace(services.context, pool=standby.pool))

    @wraps(row.handler)
    async def answer(here: Services, request: Request[Any, Any, Any]) -> object | Later:
        if _WANTS_NEWEST in request.headers.get(b"cache-control", b"").decode("latin-1").lower():
            return await row.handler(here, request)
        return await standby.read(lambda: row.handler(there, request), lambda: row.handler(here, request))

    return structs.replace(row, handler=answer)
