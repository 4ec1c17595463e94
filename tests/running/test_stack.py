"""The order of a start, with programs in place of the parts."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pixconnect import __version__
from pixconnect.platform.config import Settings
from pixconnect.platform.local.fork_server import ForkServer
from pixconnect.platform.local.home import Home
from pixconnect.platform.local.process_death import Process, start_program
from pixconnect.running.stack import Stack

# Reports that it is ready once it may start, and that it applied no step. The preparation does not end before a part may start.
_PROGRAM = """
import os, sys, time
part, started = sys.argv[1:3]
parent, ready = (int(word.partition("=")[2]) for word in sys.argv[3:5])
os.read(parent, 1)
os.write(ready, b'+{"steps_count": 0, "sandbox_file": null}')
os.close(ready)
while part == "prepare" and not os.path.exists(started):
    time.sleep(0.01)
open(started, "w").close()
"""


class _SlowForkServer(ForkServer):
    """Starts no other part before the tables are prepared, as if it still imported modules."""

    def __init__(self, started: Path) -> None:
        super().__init__(lambda: None)
        self._program = [sys.executable, "-I", "-S", "-c", _PROGRAM]
        self._path = str(started)
        self.prepared = asyncio.Event()
        self.parts: list[str] = []

    async def launch(
        self, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[tuple[str, int]]
    ) -> Process:
        self.parts.append(command[-1])
        if command[-1] != "prepare":
            await self.prepared.wait()
        return await start_program([*self._program, command[-1], self._path], {}, descriptors)


async def test_neither_does_the_preparation_wait_for_other_forks_nor_do_parts_for_its_end(tmp_path: Path) -> None:
    home, server, lines = Home(tmp_path / "home", __version__), _SlowForkServer(tmp_path / "started"), list[str]()

    def report(line: str) -> None:
        lines.append(line)
        if line.startswith("tables are up to date"):
            server.prepared.set()

    settings = Settings(database_url="postgresql://nobody@nowhere/none", home=str(home.path), port=0, api_processes_count=1)
    stack = Stack(settings, home, report, server)
    try:
        async with asyncio.timeout(60):
            await stack.start()
    finally:
        await stack.stop()
        home.close()
    assert server.parts == ["prepare", "sandbox", "serve", "work"]
    assert lines == [
        "tables are up to date (0 steps applied)",
        *(f"{part} is ready" for part in ("sandbox", "API process 1", "worker")),
    ]
