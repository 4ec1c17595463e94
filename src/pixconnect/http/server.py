"""The one HTTP server of all that listens: API, sandbox, metrics. uvicorn's server around connections of our own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, cast

import uvicorn

from pixconnect.http.asgi import ASGIApp
from pixconnect.http.connection import Connection
from pixconnect.http.limits import CONNECTIONS_MAX, GRACE_S
from pixconnect.http.open_connections import Connections


class Server(uvicorn.Server):
    """uvicorn's server: sweeps the connections, and leaves signals to whoever started it (who sets ``should_exit``).

    Args:
        config: uvicorn's.
        connections: Those that it will make.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self.connections = connections
        self.server_state.connections = cast(Any, connections.all)
        self._on_ready = _nothing
        self._on_stop = _nothing

    async def serve_until(
        self,
        sockets: Sequence[socket.socket],
        stops: Sequence[asyncio.Event],
        *,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        """Serve until one of these is set, and then finish.

        Args:
            sockets: Bound.
            stops: Of which one suffices.
            on_ready: Called once connections are taken.
            on_stop: Called before requests under way are waited for.
        """
        self._on_ready, self._on_stop = on_ready, on_stop or _nothing
        watching = [asyncio.create_task(self._stop_after(stop)) for stop in stops]
        try:
            await self.serve(sockets=list(sockets))
        finally:
            for watch in watching:
                watch.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish."""
        self._on_stop()
        await super().shutdown(sockets)

    async def _stop_after(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        now_s = asyncio.get_running_loop().time()
        self.connections.bound_unsent(now_s)
        if counter % 10 == 0:
            for connection in list(self.connections.all):
                connection.close_if_overdue(now_s)
        is_over = await super().on_tick(counter)
        if counter % 10 == 0:  # uvicorn has written the date anew
            headers = self.server_state.default_headers
            self.connections.common_head = b"".join(b"%b: %b\r\n" % header for header in headers)
        return is_over

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


def _nothing() -> None:
    pass


def make_server(
    app: ASGIApp,
    *,
    connections_max: int = CONNECTIONS_MAX,
    headers: Sequence[tuple[str, str]] = (),
    grace_s: float = GRACE_S,
) -> Server:
    """A server for an application.

    Args:
        app: What answers.
        connections_max: How many clients at most.
        headers: What every answer has.
        grace_s: How long requests under way may go on after the server was told to stop.

    Returns:
        A server: ``await server.serve(sockets=[...])`` until ``should_exit`` is set and requests under way are finished, or
        ``grace_s`` are over.
    """
    connections = Connections(connections_max)
    return Server(
        uvicorn.Config(
            cast(Any, app),
            loop="none",
            http=cast(Any, partial(Connection, connections)),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=list(headers),
            timeout_graceful_shutdown=cast(
                int, grace_s
            ),  # whose it is in the end, asyncio, knows parts of a second too
        ),
        connections,
    )
