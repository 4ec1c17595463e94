"""Makes children end with their parent, also when the parent is killed and cannot clean up.

On Linux the kernel signals a child when its parent dies. A process that changes its user loses that setting, so it is made
after the change and just before the program starts, by a few lines of Python that exec the program. On other systems, and for
our own programs also on Linux, a pipe does it: it ends when the parent does.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import socket
from typing import Protocol

from msgspec import Struct


class Process(Protocol):
    """The part of ``subprocess.Popen`` that the supervisor uses."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...


class Launch(Protocol):
    async def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[tuple[str, int]]
    ) -> Process:
        """Start a process that leads a separate session; its descriptors are passed as ``--<name>=<n>``."""
        ...


async def start_program(
    command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[tuple[str, int]]
) -> Process:
    """Start a separate program; as ``Launch``."""
    return subprocess.Popen(  # noqa: ASYNC220, S603 - it does not wait; our own words only
        [*command, *name_descriptors(descriptors)],
        stdin=subprocess.DEVNULL,
        env=dict(environment),
        pass_fds=[descriptor for _, descriptor in descriptors],
        # Ctrl-C reaches only the supervisor, which waits for running requests.
        start_new_session=True,
    )


def name_descriptors(descriptors: Sequence[tuple[str, int]]) -> list[str]:
    return [f"--{name}={descriptor}" for name, descriptor in descriptors]


_BECOME = """
import ctypes, os, sys
parent_pid, death_signal, uid, gid = (int(word) for word in sys.argv[1:5])
if uid >= 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, death_signal, 0, 0, 0)  # PR_SET_PDEATHSIG
if os.getppid() != parent_pid:
    sys.exit("the parent is gone already")
os.execv(sys.argv[5], sys.argv[5:])
"""

_WATCH = 'read -r _; kill -"$2" "$1"'


_PR_SET_PDEATHSIG = 1
_POLL_S = 0.05


class SystemUser(Struct, frozen=True, kw_only=True):
    name: str
    uid: int
    gid: int


def bind_to_parent(command: Sequence[str | Path], death_signal: signal.Signals, user: SystemUser | None) -> list[str]:
    """Return a command line that becomes ``command`` as ``user`` and gets ``death_signal`` when this process dies (Linux only).

    Start it from the main thread: the kernel watches the thread that starts a child, not the process.
    """
    uid, gid = (user.uid, user.gid) if user else (-1, -1)
    words = [str(os.getpid()), str(int(death_signal)), str(uid), str(gid), *map(str, command)]
    return [sys.executable, "-I", "-S", "-c", _BECOME, *words]


def watch_from_outside(pid: int, death_signal: signal.Signals) -> subprocess.Popen[bytes]:
    """Start a shell that signals ``pid`` when its standard input closes: at the latest when we are gone."""
    name = death_signal.name.removeprefix("SIG")
    return subprocess.Popen(  # noqa: S603 - our own words only
        ["/bin/sh", "-c", _WATCH, "sh", str(pid), name], stdin=subprocess.PIPE, start_new_session=True
    )


def die_with_parent(death_signal: signal.Signals) -> None:
    """Have the kernel signal this process when its parent dies; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


async def exit_status(process: Process) -> int:
    """Wait for a process to end, without a thread."""
    descriptor = _open_process(process.pid) if process.poll() is None else None
    if descriptor is not None:
        try:
            await wait_until_readable(descriptor)
        finally:
            os.close(descriptor)
    # Without a descriptor, or for the moment between its signal and the exit status, we poll.
    while True:
        if (status := process.poll()) is not None:
            return status
        await asyncio.sleep(_POLL_S)


async def wait_until_readable(file: int | socket) -> None:
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(file, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(file)


def _open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; ``None`` if the system has none."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    # An old or a restricted kernel refuses.
    except OSError:
        return None


def describe_exit(status: int) -> str:
    """Describe a status of ``subprocess``, which is negative for a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def find_servers(data_folder: Path) -> list[int]:
    """Find the processes of a PostgreSQL on this data."""
    if not data_folder.exists():
        return []
    # Without ``/proc`` we know only the server, by its pid file. Its backends end once they are idle; until then the start is
    # tried again.
    if sys.platform != "linux":
        return _server_by_pid_file(data_folder)
    wanted = os.fspath(data_folder.resolve())
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _is_server_in(name, wanted)]


def _is_server_in(pid: str, folder: str) -> bool:
    try:
        if os.readlink(f"/proc/{pid}/cwd") != folder:
            return False
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return False


def _server_by_pid_file(data_folder: Path) -> list[int]:
    try:
        pid = int((data_folder / "postmaster.pid").read_text().split("\n", 1)[0])
        command = subprocess.check_output(["/bin/ps", "-o", "command=", "-p", str(pid)], text=True)  # noqa: S603
    except (OSError, ValueError, subprocess.CalledProcessError):
        return []
    return [pid] if str(data_folder) in command else []
