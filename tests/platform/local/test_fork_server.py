"""Parts that are forked from one process are as if they had been started."""

import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from pixconnect.platform.local import process_death
from pixconnect.platform.local.fork_server import ForkServer, Started
from pixconnect.platform.local.process_death import Process
from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives an orphan to an ancestor of its choice")

SERVER = """
import json, os, signal, sys
from pixconnect.platform.local import fork_server

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


def start(program: str) -> Started:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(0)
    with its:
        words = [sys.executable, "-c", program, f"--control-fd={its.fileno()}", " " * 160]
        return subprocess.Popen(words, env={"PATH": os.environ["PATH"]}, pass_fds=[its.fileno()]), ours


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    made = ForkServer(partial(start, SERVER))
    yield made
    made.close()


class Part:
    """A part that has reported its kind, and ends when it is released."""

    def __init__(self, process: Process, told: Mapping[str, Any], waits_fd: int) -> None:
        self.process = process
        self.told = told
        self._waits_fd = waits_fd

    async def end(self) -> int:
        os.close(self._waits_fd)
        return await process_death.exit_status(self.process)


async def launch(server: ForkServer, own: str = "1") -> Part:
    report_fd, its_report_fd = os.pipe()
    its_wait_fd, waits_fd = os.pipe()
    process = await server.launch(COMMAND, {"OWN": own}, [("report-fd", its_report_fd), ("wait-fd", its_wait_fd)])
    for descriptor in (its_report_fd, its_wait_fd):
        os.close(descriptor)
    with os.fdopen(report_fd, "rb") as report:
        return Part(process, json.load(report), waits_fd)


async def run_program(server: ForkServer, environment: Mapping[str, str]) -> tuple[bytes, int]:
    """The output and the exit of a part that must be a separate program because it is no module."""
    reading, writing = os.pipe()
    script = "import os, sys; os.write(int(sys.argv[1].removeprefix('--report-fd=')), os.environb[b'OWN'])"
    process = await server.launch([sys.executable, "-c", script], environment, [("report-fd", writing)])
    os.close(writing)
    with os.fdopen(reading, "rb") as report:
        return report.read(), await process_death.exit_status(process)


def has_in_memory(pid: int, text: str) -> bool:
    """Whether these characters are in the writable memory of a process, freed or not."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as mappings, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for addresses, rights, *_ in map(bytes.split, mappings):
                # Beyond these are addresses that cannot even be sought.
                if not rights.startswith(b"rw"):
                    continue
                start, end = (int(address, 16) for address in addresses.split(b"-"))
                region = b""
                while start < end:
                    try:
                        read = os.pread(memory.fileno(), end - start, start)
                    except OSError:
                        read = b""  # an unmapped page
                    region += read
                    start += len(read) or resource.getpagesize()
                if text.encode() in region:
                    return True
    except PermissionError:
        pytest.skip("this system lets nobody read the memory of a child")
    return False


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
    part.process.kill()  # it has ended: no other process is signalled


async def test_parts_go_on_without_the_server_and_the_next_one_starts_another(server: ForkServer) -> None:
    first = await launch(server)
    server.close()
    second = await launch(server)
    assert first.process.poll() is None
    assert [await part.end() for part in (first, second)] == [7, 7]


async def test_a_server_at_rest_ends_and_the_next_part_starts_another() -> None:
    server = ForkServer(partial(start, SERVER), rest_s=0.01)
    with closing(server):
        first = await launch(server)
        await until(lambda: server._started is None)
        second = await launch(server)
        assert first.process.poll() is None
        assert [await part.end() for part in (first, second)] == [7, 7]


async def test_where_there_is_no_server_a_part_is_a_program_of_its_own() -> None:
    for found in (lambda: None, partial(start, "raise SystemExit")):
        assert await run_program(ForkServer(found), {"OWN": "here"}) == (b"here", 0)


async def test_a_server_that_was_started_before_is_used() -> None:
    with closing(ForkServer(lambda: None, start(SERVER))) as server:
        assert await (await launch(server)).end() == 7


async def test_a_part_whose_environment_is_not_utf_8_is_a_program_and_the_server_stays(server: ForkServer) -> None:
    part = await launch(server)
    started = server._started
    assert await run_program(server, {"OWN": "\udce9"}) == (b"\xe9", 0)
    assert server._started is started
    assert await part.end() == 7


async def test_a_part_that_is_told_more_than_a_message_holds_is_a_program_of_its_own(server: ForkServer) -> None:
    environment = {"OWN": "here", "LONG": "x" * 70_000, "LONGER": "x" * 80_000}
    assert await run_program(server, environment) == (b"here", 0)


async def test_what_a_part_was_told_is_in_its_memory_and_not_in_the_servers(server: ForkServer) -> None:
    secret = secrets.token_hex(32)
    part = await launch(server, secret)
    try:
        assert server._started is not None
        found = [has_in_memory(process.pid, secret) for process in (part.process, server._started[0])]
    finally:
        await part.end()
    assert found == [True, False]


async def test_what_a_part_was_told_is_not_in_the_memory_of_a_later_one(server: ForkServer) -> None:
    secret = secrets.token_hex(32)
    parts = [await launch(server, secret), await launch(server)]
    try:
        found = [has_in_memory(part.process.pid, secret) for part in parts]
    finally:
        for part in parts:
            await part.end()
    assert found == [True, False]


async def test_a_part_is_forked_and_ends_as_ever_where_ends_of_children_are_ignored(server: ForkServer) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        part = await launch(server)
        assert part.told["parent"] == os.getpid()
        assert await part.end() == 7
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_a_part_whose_status_was_lost_has_ended(server: ForkServer) -> None:
    part = await launch(server)
    part.process.kill()
    os.waitpid(part.process.pid, 0)
    assert (part.process.poll(), await part.end()) == (0, 0)
