"""Backpressure on a connection: whether reading and writing are paused."""

from __future__ import annotations

import asyncio


class FlowControl:
    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        self.read_paused = False
        self.write_paused = False

    def pause_reading(self) -> None:
        # asyncio must not be told twice. What the client sends stays in the socket.
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        if self.write_paused:
            self.write_paused = False
            self._writable.set()

    async def drain(self) -> None:
        await self._writable.wait()
