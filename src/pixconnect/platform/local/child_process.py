"""One child process of the supervisor, with two pipes to it, and the child's side of them.

The parent writes one byte into the *parent* pipe when the child may begin its work; the end of that pipe means that the parent
is gone. The child writes once into the *ready* pipe: ``+`` and a message when it is ready, ``-`` and the reason why it cannot
start, ``~`` and the reason if the database is at fault, or ``!`` and the reason if no restart helps. A part that ends as
it has lost the database does so with its own status.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from socket import socket
from typing import Final

from msgspec import Struct

from pixconnect.platform.base import errors
from pixconnect.platform.local import process_death
from pixconnect.platform.local.process_death import Launch, Process, start_program
from pixconnect.platform.local.supervisor import PartKeepsFailingError

READY = b"+"
FAILED = b"-"
WAITING = b"~"
ENDED = b"!"
START = b"g"
DATABASE_AWAY_STATUS: Final = 75  # ``EX_TEMPFAIL`` of ``sysexits.h``: nothing is wrong with the part


class Lifeline(Struct, frozen=True, kw_only=True):
    """The child's ends of both pipes; a process without a parent has none, waits for nothing and reports nothing."""

    parent_fd: int | None = None
    ready_fd: int | None = None

    def wait_for_start(self) -> None:
        """Wait for the start signal; from then on this process ends when its parent does."""
        if self.parent_fd is None:
            return
        process_death.die_with_parent(signal.SIGKILL)
        if os.read(self.parent_fd, 1) != START:
            os._exit(0)
        threading.Thread(target=_end_with, args=(self.parent_fd,), name="lifeline", daemon=True).start()

    def report_ready(self, message: bytes = b"") -> bool:
        """Report readiness to the parent; false if the parent is gone."""
        return self._report(READY + message)

    def report_failure(self, reason: str) -> bool:
        """Report to the parent why we cannot start; false if the parent is gone."""
        return self._report(FAILED + reason.encode())

    def report_database_away(self, reason: str) -> bool:
        """Report that only the database prevents our start."""
        return self._report(WAITING + reason.encode())

    def report_end(self, reason: str) -> bool:
        """Report that no restart helps."""
        return self._report(ENDED + reason.encode())

    def _report(self, content: bytes) -> bool:
        if self.ready_fd is None:
            return False
        try:
            os.write(self.ready_fd, content)
            os.close(self.ready_fd)
        # We have reported already, or the parent has gone.
        except OSError:
            return False
        return True


def _end_with(parent_fd: int) -> None:
    # Nothing is tidied up: work interrupted here must survive kill -9 as well.
    while os.read(parent_fd, 64):
        pass
    os._exit(1)


READY_TIMEOUT_S = 60
_MESSAGE_SIZE_MAX = 65_536


class ChildFailedError(Exception):
    """A child did not become ready; the message states the reason."""


class ChildEndedError(ChildFailedError, PartKeepsFailingError):
    """It can never become ready."""


_DATABASE_AWAY = "the database was away"


class ChildProcess:
    """A child that can be started again and again.

    Args:
        command: ``--parent-fd``, ``--ready-fd`` and a ``--socket-fd`` for each socket are added to it.
        sockets: They listen already and stay open here, so that connections wait while the child is started again.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        sockets: Sequence[socket] = (),
        launch: Launch = start_program,
    ) -> None:
        self.name = name
        self.process: Process | None = None
        self._launch = launch
        self._command = command
        self._environment = environment
        self._sockets = sockets
        self._ready_fd: int | None = None
        self._parent_fd: int | None = None
        self.lacked_database = False  # whether only an unreachable database caused its last failure or end

    async def spawn(self) -> None:
        """Start the process, which imports what it needs and waits for ``signal_start``."""
        # An earlier process that did not become ready in time may still run.
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._close_pipes()
        self.lacked_database = False
        child_parent_fd, self._parent_fd = os.pipe()
        self._ready_fd, child_ready_fd = os.pipe()
        given = [("parent-fd", child_parent_fd), ("ready-fd", child_ready_fd)]
        given += [("socket-fd", one.fileno()) for one in self._sockets]
        try:
            self.process = await self._launch(self._command, self._environment, given)
        finally:
            os.close(child_parent_fd)
            os.close(child_ready_fd)

    def signal_start(self) -> None:
        parent_fd = errors.require(self._parent_fd, "not spawned")
        # The child may have died; ``wait_until_ready`` will report that.
        with contextlib.suppress(BrokenPipeError):
            os.write(parent_fd, START)

    async def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> bytes:
        """Wait for the child's report and return its message."""
        try:
            async with asyncio.timeout(timeout_s):
                report = await self._read_report()
        except TimeoutError:
            raise ChildFailedError(f"{self.name} is not ready after {timeout_s} s") from None
        if report.startswith(READY):
            return report[1:]
        if report.startswith(ENDED):
            raise ChildEndedError(report[1:].decode(errors="replace"))
        self.lacked_database = report.startswith(WAITING)
        if report.startswith((FAILED, WAITING)):
            raise ChildFailedError(report[1:].decode(errors="replace"))
        raise ChildFailedError(f"{self.name} ended before it was ready ({await self.wait_for_end()})")

    async def start(self) -> None:
        await self.spawn()
        self.signal_start()
        await self.wait_until_ready()

    async def wait_for_end(self) -> str:
        """Wait until the process has ended and describe why."""
        status = await process_death.exit_status(errors.require(self.process, "not spawned"))
        self.lacked_database = status == DATABASE_AWAY_STATUS
        return _DATABASE_AWAY if self.lacked_database else process_death.describe_exit(status)

    async def stop(self, timeout_s: float) -> None:
        """Ask the process to finish; kill it after ``timeout_s``."""
        for stop_signal, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 5.0)):
            if self.process is None or self.process.poll() is not None:
                break
            self.process.send_signal(stop_signal)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await process_death.exit_status(self.process)
        self._close_pipes()

    async def _read_report(self) -> bytes:
        ready_fd = errors.require(self._ready_fd, "not spawned")
        # The pipe ends when the child closes it, on purpose or by dying.
        report = b""
        while len(report) < _MESSAGE_SIZE_MAX:
            await process_death.wait_until_readable(ready_fd)
            if not (piece := os.read(ready_fd, _MESSAGE_SIZE_MAX)):
                break
            report += piece
        return report

    def _close_pipes(self) -> None:
        for descriptor in (self._ready_fd, self._parent_fd):
            if descriptor is not None:
                os.close(descriptor)
        self._ready_fd = self._parent_fd = None


def give_back_memory() -> None:
    """Return freed memory to the system, after a start that needed more than the work does; only glibc can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
