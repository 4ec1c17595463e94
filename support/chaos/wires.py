"""The wires that chaos cuts: from the service's processes to PostgreSQL, and to the rail."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from support.cut_connections import Wire
from support.loop_thread import LoopThread


class Wires:
    def __init__(self, database_socket: str, rail: tuple[str, int]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wire-"))
        self.by_name = {"database": Wire(database_socket), "rail": Wire(rail)}
        self._servers: list[asyncio.Server] = []
        self._thread = LoopThread("wires")
        self.rail_port = self.ask(self._listen(Path(database_socket).name))

    def ask(self, work: Any) -> Any:
        return self._thread.ask(work)

    async def _listen(self, socket_name: str) -> int:
        database = await asyncio.start_unix_server(self.by_name["database"].accept, self.folder / socket_name)
        server = await asyncio.start_server(self.by_name["rail"].accept, "127.0.0.1", 0)
        self._servers += [database, server]
        return server.sockets[0].getsockname()[1]

    def mend(self) -> None:
        for wire in self.by_name.values():
            wire.mend()

    def end(self) -> None:
        self.ask(self._end())
        self._thread.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for wire in self.by_name.values():
            # A client whose connection was cut connects again at once.
            wire.is_away = True
            await wire.end()
