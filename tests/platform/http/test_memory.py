"""Memory that one connection can use: a server in another process is attacked with megabytes and measured."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

SERVER: Final = """
import asyncio, socket, uvloop
from pixconnect.platform.http.server import Server

async def answer(scope, receive, send):
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})

async def main():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        await Server(answer).serve([listener])

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""
GROWTH_MAX_MIB: Final = 24
SENT_MAX: Final = 8_000_000
CHUNKED: Final = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def server() -> Iterator[tuple[int, int]]:
    """Its port and its pid."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


async def attack(port: int, beginning: bytes, block: bytes, patience_s: float = 1) -> bool:
    """Send endlessly without reading; returns whether the connection was closed before the server stopped reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.transport.pause_reading()
    writer.write(beginning)
    try:
        for _ in range(SENT_MAX // len(block)):
            writer.write(block)
            async with asyncio.timeout(patience_s):
                await writer.drain()
    except OSError:
        return not isinstance(sys.exc_info()[1], TimeoutError)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await reader.read()
    return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
@pytest.mark.parametrize(
    ("beginning", "block", "is_hung_up"),
    [
        (b"", b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n" * 2000, False),
        (CHUNKED + b"0\r\n", b"ab:cd\r\n" * 8000, True),
        (CHUNKED + b"0\r\nx: ", b"y" * 56_000, True),
        (CHUNKED + b"1;", b"y" * 56_000, True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nx: ", b"y" * 56_000, True),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\nabcdefg", b"\r\n" * 28_000, False),
    ],
    ids=["requests ahead", "trailers", "trailer value", "chunk extension", "header", "blank lines"],
)
async def test_megabytes_on_one_connection_are_not_held(
    server: tuple[int, int], beginning: bytes, block: bytes, is_hung_up: bool
) -> None:
    port, pid = server
    assert await attack(port, b"", b"\r\n" * (SENT_MAX // 4)) is False  # so that all is loaded
    before_mib = peak_mib(pid)
    # Connections that must be closed get the time for it, however busy the machine is; others are no longer read.
    assert await attack(port, beginning, block, 60 if is_hung_up else 1) is is_hung_up
    assert peak_mib(pid) - before_mib < GROWTH_MAX_MIB
