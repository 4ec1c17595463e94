"""Run verbs of the command line in forks of one process that has imported their code.

Started as a program, a verb takes most of a second of CPU for imports, and the tests run hundreds. Tests of the program
itself, such as its imports at start, start it instead.
"""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[1]
MESSAGE_OCTETS_MAX = 200_000


class Wanted(Struct, frozen=True):
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str


class _Server:
    """The tests' side: starts the process at the first use, and ends it with this one."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None

    def run(self, wanted: Wanted, timeout_s: float) -> "subprocess.CompletedProcess[str]":
        control = self._control or self._start()
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with its:
                message, files = msgspec.json.encode(wanted), [out.fileno(), err.fileno(), its.fileno()]
                socket.send_fds(control, [message], files)
            pid = int(ours.recv(16))
            if not select.select([ours], [], [], timeout_s)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(wanted.words), timeout_s)
            # A killed one gives no output.
            status = int(ours.recv(16) or b"-9")
            said = [file.seek(0) or file.read().decode() for file in (out, err)]
        return subprocess.CompletedProcess(list(wanted.words), status, *said)

    def _start(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, "-m", "support.verb_server", str(its.fileno())],
                cwd=ROOT,
                # Some modules read it while they are imported.
                env={"PATH": os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "240"},
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        self._control = ours

        def end() -> None:
            ours.close()
            process.wait()

        atexit.register(end)
        return ours


_server = _Server()


def run_forked(
    words: Sequence[str], environment: Mapping[str, str], *, timeout_s: float = 300
) -> "subprocess.CompletedProcess[str]":
    return _server.run(Wanted(words, environment, str(ROOT)), timeout_s)
