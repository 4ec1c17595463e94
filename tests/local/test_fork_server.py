"""Parts that are forked from one process are as if they had been started."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from pixconnect.local import process_death
from pixconnect.local.fork_server import ForkServer
from pixconnect.local.launching import Process

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux gives an orphan to an ancestor of its choice"
)

SERVER = """
import json, os, signal, sys
from pixconnect.local import fork_server

def begin(words):
    found = dict(word.removeprefix("--").partition("=")[::2] for word in words[1:])
    shown = open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0))
    told = dict(words=words, shown=shown, environment=dict(os.environ), parent=os.getppid(), leader=os.getsid(0))
    os.write(int(found["report-fd"]), json.dumps(told).encode())
    os.close(int(found["report-fd"]))
    os.read(int(found["wait-fd"]), 1)

begin(fork_server.wait_for_part(int(sys.argv[1].removeprefix("--control-fd="))))
sys.exit(7)
"""
COMMAND = [sys.executable, "-P", "-m", "parts", "work"]


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    made = ForkServer([sys.executable, "-c", SERVER], {"PATH": os.environ["PATH"]})
    yield made
    made.stop()


class Part:
    """A part that has told what it is, and ends when it is let go."""

    def __init__(self, process: Process, told: Mapping[str, Any], waits_fd: int) -> None:
        self.process = process
        self.told = told
        self._waits_fd = waits_fd

    async def end(self) -> int:
        os.close(self._waits_fd)
        return await process_death.exit_status(self.process)


async def launch(server: ForkServer) -> Part:
    report_fd, its_report_fd = os.pipe()
    its_wait_fd, waits_fd = os.pipe()
    process = await server.launch(COMMAND, {"OWN": "1"}, [("report-fd", its_report_fd), ("wait-fd", its_wait_fd)])
    for descriptor in (its_report_fd, its_wait_fd):
        os.close(descriptor)
    with os.fdopen(report_fd, "rb") as report:
        return Part(process, json.load(report), waits_fd)


async def test_a_part_is_a_child_of_ours_with_its_own_words_and_environment(server: ForkServer) -> None:
    part = await launch(server)
    told = part.told
    assert (told["words"][0], told["environment"]) == ("work", {"OWN": "1"})
    assert (told["parent"], told["leader"]) == (os.getpid(), part.process.pid)
    assert told["shown"] == [*COMMAND, *told["words"][1:]]
    assert part.process.poll() is None
    assert await part.end() == 7


async def test_a_part_that_is_killed_says_so(server: ForkServer) -> None:
    part = await launch(server)
    part.process.kill()
    assert await part.end() == -signal.SIGKILL
    part.process.kill()  # it has ended: nobody else is signalled


async def test_parts_go_on_without_the_server_and_the_next_one_starts_another(server: ForkServer) -> None:
    first = await launch(server)
    server.stop()
    second = await launch(server)
    assert first.process.poll() is None
    assert [await part.end() for part in (first, second)] == [7, 7]


async def test_where_there_is_no_server_a_part_is_a_program_of_its_own() -> None:
    reading, writing = os.pipe()
    server = ForkServer([sys.executable, "-c", "raise SystemExit"], {})
    script = "import os, sys; os.write(int(sys.argv[1].removeprefix('--report-fd=')), b'here')"
    process = await server.launch([sys.executable, "-c", script], {}, [("report-fd", writing)])
    os.close(writing)
    assert (os.read(reading, 64), await process_death.exit_status(process)) == (b"here", 0)
    os.close(reading)
