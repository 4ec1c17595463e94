"""No child outlives its parent, however the parent died: kill -9 leaves nobody who could tidy up.

On Linux the kernel tells a child that its parent is gone. That wish is forgotten when a process changes its user, so it
is made after the change and just before the program starts, by a few lines of Python that become the program. Elsewhere,
and for our own programs also on Linux, a pipe tells: whoever holds its other end is alive.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

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
    """Whom a program runs as."""

    name: str
    uid: int
    gid: int


def bound_to_us(command: Sequence[str | Path], death_signal: signal.Signals, user: SystemUser | None) -> list[str]:
    """The command line that becomes ``command`` and gets ``death_signal`` when this process dies.

    Args:
        command: The program's full path and its arguments.
        death_signal: Sent by the kernel (Linux only; see ``watch_from_outside``).
        user: Whom to become first; ``None`` stays who we are.

    Returns:
        What to start. Start it from the main thread: the kernel takes the death of the starting thread for ours.
    """
    uid, gid = (user.uid, user.gid) if user else (-1, -1)
    words = [str(os.getpid()), str(int(death_signal)), str(uid), str(gid), *map(str, command)]
    return [sys.executable, "-I", "-S", "-c", _BECOME, *words]


def watch_from_outside(pid: int, death_signal: signal.Signals) -> subprocess.Popen[bytes]:
    """Start a shell that sends ``death_signal`` to ``pid`` once we are gone, for systems without parent-death signals.

    Returns:
        The shell; closing its standard input fires it, killing it calls it off.
    """
    name = death_signal.name.removeprefix("SIG")
    return subprocess.Popen(  # noqa: S603 - our own words only
        ["/bin/sh", "-c", _WATCH, "sh", str(pid), name], stdin=subprocess.PIPE, start_new_session=True
    )


def die_with_parent(death_signal: signal.Signals) -> None:
    """Ask the kernel for a signal to this process when its parent dies; does nothing on other systems than Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


async def exit_status(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process to end, without a thread and, where the kernel tells, without asking again and again."""
    descriptor = _open_process(process.pid) if process.poll() is None else None
    if descriptor is not None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    while True:
        if (status := process.poll()) is not None:
            return status
        await asyncio.sleep(_POLL_S)


def _open_process(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; ``None`` where the system has none."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old or a restricted kernel
        return None


def describe_exit(status: int) -> str:
    """An exit status in words, as ``subprocess`` counts them: below 0 is a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
