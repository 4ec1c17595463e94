"""A wire ends what it has begun, whatever it was about to do."""

import asyncio
from contextlib import suppress

from support.cut_connections import Wire


class _Silent(Wire):
    """Its server never takes a connection."""

    def __init__(self) -> None:
        super().__init__("")
        self.is_reaching = asyncio.Event()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.is_reaching.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_who_waits_for_a_server_is_cut_too() -> None:
    wire = _Silent()
    server = await asyncio.start_server(wire.accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        await wire.is_reaching.wait()
        await wire.end()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    finally:
        writer.close()
        server.close()
