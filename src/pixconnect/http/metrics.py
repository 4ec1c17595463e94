"""Serves a process's metrics on a loopback port of its own, so that they need no token and callers cannot read them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from pixconnect.foundation.metrics import CONTENT_TYPE, Read, write_text
from pixconnect.http.asgi import RESPONSE_BODY, RESPONSE_START, ASGIApp, Receive, Scope, Send
from pixconnect.http.server import Server

PATH: Final = "/metrics"

_CONNECTIONS_MAX = 64
_GRACE_S = 0.5
_READ_TIMEOUT_S = 5.0

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def serve_metrics(listener: socket.socket | None, read: Read) -> AsyncGenerator[None]:
    """Serve metrics on a listening socket while the block runs, or not at all if there is none."""
    if listener is None:
        yield
        return

    server = Server(_make_application(read), connections_max=_CONNECTIONS_MAX, grace_s=_GRACE_S)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.stop()
        await serving


def _make_application(read: Read) -> ASGIApp:
    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        status, text = await _answer(scope, read)
        body = text.encode()
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": RESPONSE_START, "status": status, "headers": headers})
        await send({"type": RESPONSE_BODY, "body": body})

    return answer


async def _answer(scope: Scope, read: Read) -> tuple[int, str]:
    if scope["method"] not in {"GET", "HEAD"} or scope["raw_path"] != PATH.encode():
        return 404, f"ask for GET {PATH}\n"
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S):
            return 200, write_text(await read())
    except Exception as error:  # noqa: BLE001  a scraper must get an answer whatever has failed
        _log.warning("metrics cannot be read", error=type(error).__name__)
        return 500, "metrics cannot be read\n"
