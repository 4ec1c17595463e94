"""The port with the metrics of a process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx2

from pixconnect.platform.http.server import serve_metrics
from pixconnect.platform.metrics import CONTENT_TYPE, Measured, MetricFamily, write_text

HELD = MetricFamily(name="things_held", kind="gauge", meaning="Things that are held.")


@asynccontextmanager
async def telling(*measured: Measured, failure: Exception | None = None) -> AsyncIterator[str]:
    async def read() -> Sequence[Measured]:
        if failure is not None:
            raise failure
        return measured

    listener = socket.create_server(("127.0.0.1", 0))
    async with serve_metrics(listener, read):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_who_watches_is_told_and_anything_else_is_not_found() -> None:
    async with telling(Measured(family=HELD, values={(): 7})) as url, httpx2.AsyncClient(trust_env=False) as http:
        told = await http.get(f"{url}/metrics?name=all")
        assert (told.status_code, told.headers["content-type"]) == (200, CONTENT_TYPE)
        assert told.text == write_text([Measured(family=HELD, values={(): 7})])
        for method, path in (("GET", "/"), ("GET", "/metrics/2"), ("POST", "/metrics"), ("GET", "/v1/connect/health")):
            assert (await http.request(method, url + path)).status_code == 404


async def test_a_failure_is_said_and_the_next_one_who_asks_is_answered() -> None:
    async with telling(failure=ValueError("a secret")) as url, httpx2.AsyncClient(trust_env=False) as http:
        for _ in range(2):
            told = await http.get(f"{url}/metrics")
            assert (told.status_code, told.text) == (500, "metrics cannot be read\n")


async def test_nonsense_is_hung_up_on() -> None:
    async with telling(Measured(family=HELD, values={(): 7})) as url:
        for octets in (b"a" * 100_000, b"\0\r\n\r\n", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(octets)
            writer.write_eof()
            try:
                said = await asyncio.wait_for(reader.read(), 60)
            except ConnectionResetError:
                said = b""
            assert said[:12] in {b"", b"HTTP/1.1 400"}
            writer.transport.abort()


async def test_without_a_port_nobody_is_told() -> None:
    async def read() -> Sequence[Measured]:
        raise AssertionError

    async with serve_metrics(None, read):
        pass
