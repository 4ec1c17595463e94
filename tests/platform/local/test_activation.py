"""Socket activation: a process is started for the first connection."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixconnect.platform.local.child_process import ChildProcess
from pixconnect.running import stack as activation
from pixconnect.running.stack import ActivatedProcess

# Answers one connection and ends, or says why it cannot start.
_PROGRAM = """
import os, socket, sys
parent, ready, listener = (int(word.partition("=")[2]) for word in sys.argv[-3:])
os.read(parent, 1)
open(sys.argv[1], "a").write("x")
if sys.argv[2] == "fails":
    os.write(ready, b"-no")
    sys.exit(1)
os.write(ready, b"+")
os.close(ready)
connection, _ = socket.socket(fileno=listener).accept()
connection.setblocking(True)
connection.sendall(b"hello")
connection.close()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield opened


async def _greet(listener: socket.socket) -> bytes:
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    answer = await reader.read(5)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_each_visitor_after_an_end_starts_it_again(listener: socket.socket, tmp_path: Path) -> None:
    starts, said = tmp_path / "starts", asyncio.Queue[str]()
    child = ChildProcess("page", [sys.executable, "-c", _PROGRAM, str(starts), "works"], {}, [listener])
    activated = ActivatedProcess(child, listener, said.put_nowait)
    activated.watch()
    await asyncio.sleep(0)
    assert child.process is None
    for count in (1, 2):
        async with asyncio.timeout(60):
            assert await _greet(listener) == b"hello"
            # It may answer before it is known to be ready here.
            assert await said.get() == "page is ready"
        assert starts.read_text() == "x" * count
    await activated.stop(5)
    assert said.empty()


async def test_one_that_cannot_start_is_told_and_tried_again_later(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, told_twice = list[str](), asyncio.Event()
    monkeypatch.setattr(activation, "RETRY_PAUSE_S", 0.0)

    def report(line: str) -> None:
        said.append(line)
        if len(said) > 1:
            told_twice.set()

    child = ChildProcess("page", [sys.executable, "-c", _PROGRAM, str(tmp_path / "starts"), "fails"], {}, [listener])
    activated = ActivatedProcess(child, listener, report)
    activated.watch()
    with socket.create_connection(listener.getsockname()):
        async with asyncio.timeout(60):
            await told_twice.wait()
    await activated.stop(5)
    assert set(said) == {"page cannot start: no"}
