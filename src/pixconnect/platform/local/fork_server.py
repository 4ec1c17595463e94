"""Parts are forked from one process that has imported their common modules: they share its memory, and start at once.

::

    supervisor ──► fork server ──► a process between, which ends ──► the part
         ▲                                                             │
         └──────── is its parent, as of one that it had started ◄──────┘

The fork server does nothing else: it has no thread, no connection and no secret. The message to a part has passwords in it, and
freed memory is not cleared, so every part forked later would inherit the server's received data. Therefore the server only
detects a message, and the intermediate process receives it. The server ends when it has forked nothing for a while, and the
next part starts another one. If it is unavailable, each part is started as a separate program. Only Linux hands an orphan to an
ancestor of its choice.
"""

import asyncio
import ctypes
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.platform.base import errors
from pixconnect.platform.local import process_death
from pixconnect.platform.local.process_death import Process, name_descriptors, start_program

TIMEOUT_S: Final = 30.0  # how long a fork may take; the first one waits until everything is imported
REST_S: Final = 30.0
"""How long it stays after a fork. Parts of its memory are no longer shared with any part, and a part that ends is rare."""
_MESSAGE_SIZE_MAX: Final = 131_072
_DESCRIPTORS_MAX: Final = 64
_PR_SET_CHILD_SUBREAPER: Final = 36
_STEP_S: Final = 0.0002
_ARG_START, _ARG_END = 47, 48  # the position of a process's arguments in its memory: fields of ``/proc/<pid>/stat``


class _Wanted(Struct, frozen=True, kw_only=True):
    command: Sequence[str]
    environment: Mapping[str, str]
    descriptor_names: Sequence[str]


Started = tuple[subprocess.Popen[bytes], socket.socket]  # the server's process, and a non-blocking socket to it


class ForkServer:
    """The supervisor's side.

    Args:
        start: Starts the process, whose environment has what imports need: each part gets its own. It returns ``None`` on a
            system that has none.
        started: What it has returned already.
    """

    def __init__(self, start: Callable[[], Started | None], started: Started | None = None, *, rest_s: float = REST_S) -> None:
        self._start = start
        self._started = started
        self._turn = asyncio.Lock()
        self._rest_s = rest_s
        self._ending: asyncio.TimerHandle | None = None

    async def launch(
        self, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[tuple[str, int]]
    ) -> Process:
        """Fork a part; as ``Launch``."""
        names = [name for name, _ in descriptors]
        try:
            message = msgspec.json.encode(_Wanted(command=command, environment=environment, descriptor_names=names))
        except UnicodeEncodeError:
            # An environment may contain any octets; a program can receive these, but JSON cannot represent them.
            return await start_program(command, environment, descriptors)
        async with self._turn:
            self._cancel_ending()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    return await self._fork(message, [descriptor for _, descriptor in descriptors])
            except OSError:  # TimeoutError is one
                self.close()
            except BaseException:
                # Otherwise the answer to this message would count as the next one's.
                self.close()
                raise
            finally:
                self._ending = asyncio.get_running_loop().call_later(self._rest_s, self.close)
        return await start_program(command, environment, descriptors)

    def close(self) -> None:
        """End it; parts that it forked go on, and the next one starts another server."""
        self._cancel_ending()
        if self._started is not None:
            process, control = self._started
            control.close()
            process.kill()
            process.wait()
        self._started = None

    def _cancel_ending(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    async def _fork(self, message: bytes, descriptors: Sequence[int]) -> Process:
        _restore_child_statuses()
        self._started = self._started or self._start()
        if self._started is None:
            raise OSError("there is no fork server on this system")
        _, control = self._started
        # The part's first parent ends at once, and the process that adopts orphans becomes its parent: we do that here,
        # and only for this moment, or we would inherit PostgreSQL's orphans too.
        _adopt_orphans(yes=True)
        try:
            socket.send_fds(control, [message], descriptors)
            answer = await asyncio.get_running_loop().sock_recv(control, 64)
        finally:
            _adopt_orphans(yes=False)
        if not answer:
            raise ConnectionResetError("the fork server has gone")
        return _ForkedProcess(int(answer))


class _ForkedProcess:
    """A child that ``subprocess`` did not start."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._look(os.WNOHANG)

    def wait(self) -> int:
        return errors.require(self._look(0), "it has ended")

    def send_signal(self, sig: int, /) -> None:
        # After its status was read the pid may be another's.
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                # It has ended, and its status is lost: ``subprocess`` assumes zero too.
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _adopt_orphans(*, yes: bool) -> None:
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0):
        raise OSError("the system does not let us adopt orphans")


def fork_if_asked(control_fd: int) -> list[str] | None:
    """Fork at a request that is there already; ``None`` in the server, and in the part as ``wait_for_part``."""
    asked, _, _ = select.select([control_fd], [], [], 0)
    return _fork_at_request(control_fd) if asked else None


def wait_for_part(control_fd: int) -> list[str]:
    """Fork at each request; returns only in a forked part, with the words after ``-m <module>``."""
    while True:
        if (words := _fork_at_request(control_fd)) is not None:
            return words


def _fork_at_request(control_fd: int) -> list[str] | None:
    process_death.die_with_parent(signal.SIGKILL)
    _restore_child_statuses()
    control = socket.socket(fileno=control_fd)
    # The first octet is the same in every message. The rest must not come into this memory.
    if not control.recv(1, socket.MSG_PEEK):
        os._exit(0)
    reading, writing = os.pipe()
    between_pid = os.fork()
    if not between_pid:
        os.close(reading)
        wanted, descriptors = _receive(control)
        _become_orphan(writing)
        return _begin(wanted, descriptors)
    os.close(writing)
    pid = os.read(reading, 64)
    os.close(reading)
    # Once it is reaped, the part has its new parent.
    os.waitpid(between_pid, 0)
    if not pid:
        # The message may still be there, and the next check would fork it again.
        os._exit(1)
    control.send(pid)
    control.detach()
    return None


def _restore_child_statuses() -> None:
    # Our own parent may have ignored SIGCHLD, and child programs inherit that: the kernel then keeps no status of a
    # child that has ended, and waiting for one fails.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _receive(control: socket.socket) -> tuple[_Wanted, list[int]]:
    with control:
        message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_SIZE_MAX, _DESCRIPTORS_MAX)
    return msgspec.json.decode(message, type=_Wanted), descriptors


def _become_orphan(writing: int) -> None:
    """Go on in a child of this process, which ends after writing the child's pid."""
    between_pid = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    # The kernel signals a child when its parent ends (``process_death``): the part must not ask for that of this one.
    while os.getppid() == between_pid:
        time.sleep(_STEP_S)


def _begin(wanted: _Wanted, descriptors: Sequence[int]) -> list[str]:
    os.setsid()
    os.environ.clear()  # noqa: TID251 - what a started program would have
    os.environ.update(wanted.environment)  # noqa: TID251
    command = [*wanted.command, *name_descriptors(list(zip(wanted.descriptor_names, descriptors, strict=True)))]
    _rename(command)
    return command[command.index("-m") + 2 :]


def _rename(command: Sequence[str]) -> None:
    """Show these arguments in ``ps``, and not those of the fork server."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    # The state is the third field and the first of these.
    start, end = int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])
    words = b"".join(word.encode() + b"\0" for word in command)
    # Without the right to know, the kernel says zero.
    if start and len(words) <= end - start:
        ctypes.memmove(start, words.ljust(end - start, b"\0"), end - start)
