"""Starts a process at the first connection to its socket, and again at the next connection after the process has ended.

Until then it costs a socket: the supervisor waits for it beside everything else, and nothing wakes up. The first connection
waits in the socket until the process answers. Whatever becomes of the process, the rest of the installation goes on.
"""

import asyncio
from collections.abc import Callable
from socket import socket

from pixconnect.local.child_process import ChildFailedError, ChildProcess

RETRY_PAUSE_S = 5.0
"""After a failed start: the connection that waits would otherwise start it again at once."""
_ENDED_WELL = "exit status 0"


class ActivatedProcess:
    """Keeps a process for a socket, and tells whenever it starts, or ends in another way than by itself."""

    def __init__(self, child: ChildProcess, listener: socket, tell: Callable[[str], None]) -> None:
        self._child = child
        self._listener = listener
        self._tell = tell
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=self._child.name)

    async def stop(self, timeout_s: float) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._child.stop(timeout_s)

    async def _keep(self) -> None:
        while True:
            await _wait_for_connection(self._listener)
            try:
                await self._child.start()
            except ChildFailedError as error:
                self._tell(f"{self._child.name} cannot start: {error}")
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            self._tell(f"{self._child.name} is ready")
            reason = await self._child.wait_for_end()
            # It ends by itself when it has been idle for long, which is not worth a log line.
            if reason != _ENDED_WELL:
                self._tell(f"{self._child.name} ended ({reason})")


async def _wait_for_connection(listener: socket) -> None:
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(listener)
