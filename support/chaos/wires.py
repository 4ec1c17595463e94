"""The wires that chaos cuts: between the service's processes and PostgreSQL, and between them and the rail."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import Any

from support.cut_connections import Wire


class Wires:
    """Both, served by a thread of their own."""

    def __init__(self, database_socket: str, rail: tuple[str, int]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wire-"))
        self.by_name = {"database": Wire(database_socket), "rail": Wire(rail)}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.rail_port = self.ask(self._listen(Path(database_socket).name))

    def ask(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self, socket_name: str) -> int:
        await asyncio.start_unix_server(self.by_name["database"].accept, self.folder / socket_name)
        server = await asyncio.start_server(self.by_name["rail"].accept, "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    def mend(self) -> None:
        for wire in self.by_name.values():
            wire.is_away = wire.is_still = False
            wire.delay_s = 0.0
            wire.cuts.clear()
            wire.held.clear()
