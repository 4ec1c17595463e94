"""The same server over TLS: certificates, limits, and the same HTTP."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pixconnect.platform import certificates
from pixconnect.platform.http import listening as limits
from pixconnect.platform.http.server import Server
from pixconnect.platform.http.tls import Tls, make_context
from pixconnect.platform.jose import certificate_thumbprint
from support.waiting import until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LARGE = 3 * 1024 * 1024


class Files:
    """A server's certificate authority, and clients of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.server = certificates.write_server(home, ["localhost", "127.0.0.1"], datetime.now(UTC))
        self.authority = certificates.authority_file(home)

    def client(self, name: str | None = None, *, home: Path | None = None) -> tuple[ssl.SSLContext, str]:
        context = ssl.create_default_context(cafile=str(self.authority))
        if name is None:
            return context, ""
        made = certificates.write_client(home or self.home, self.home / "clients", name, datetime.now(UTC))
        context.load_cert_chain(made.both_file)
        return context, certificate_thumbprint(made.certificate.der)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("home"))


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the client certificate's name and the body."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    seen = f"{scope['client_certificate']} {scope['client_name']}"
    headers = [(b"content-length", b"%d" % len(body)), (b"seen", seen.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(files: Files, *, is_required: bool = False, **options: Any) -> AsyncIterator[tuple[Server, int]]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = Server(app, **options)
        context = make_context(str(files.server), str(files.server), str(files.authority), is_required=is_required)
        task = asyncio.create_task(server.serve([], tls=[Tls(context=context, sockets=[listening])]))
        try:
            yield server, listening.getsockname()[1]
        finally:
            server.stop()
            await asyncio.wait_for(task, 60)


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext | None) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ssl.SSLError, ConnectionError):
            await asyncio.wait_for(writer.wait_closed(), 60)


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[str, bytes]:
    """The certificate that the server saw, and the answer's body."""
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    seen = next(line for line in head.decode().split("\r\n") if line.startswith("seen: "))
    return seen.removeprefix("seen: "), await reader.readexactly(len(body))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_is_known_by_the_certificate_that_it_shows(files: Files, version: ssl.TLSVersion) -> None:
    async with serving(files) as (_, port):
        for name in ("shop", None, "other"):
            context, thumbprint = files.client(name)
            context.maximum_version = version
            async with connected(port, context) as streams:
                for body in (b"", b"abc", bytes(LARGE), b"d"):
                    assert await exchange(*streams, body) == (f"{thumbprint or None} {name}", body)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_without_a_certificate_gets_no_answer_where_one_is_required(
    files: Files, version: ssl.TLSVersion
) -> None:
    async with serving(files, is_required=True) as (server, port):
        context, _ = files.client()
        context.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with connected(port, context) as streams:
                await exchange(*streams, b"")
        await until(lambda: not server.connections.all)
        context, thumbprint = files.client("shop")
        async with connected(port, context) as streams:
            assert await exchange(*streams, b"x") == (f"{thumbprint} shop", b"x")


async def test_a_foreign_certificate_is_refused_and_so_is_what_is_no_tls(files: Files, tmp_path: Path) -> None:
    async with serving(files) as (server, port):
        context, _ = files.client("shop", home=tmp_path)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with connected(port, context) as streams:
                await exchange(*streams, b"")
        async with connected(port, None) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            # An alert of TLS, and no HTTP.
            assert b"HTTP" not in await asyncio.wait_for(reader.read(), 60)
        await until(lambda: not server.connections.all)
        async with connected(port, files.client()[0]) as streams:
            assert await exchange(*streams, b"x") == ("None None", b"x")


async def test_who_shakes_no_hands_counts_and_is_hung_up_on(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(files, connections_max=3) as (server, port), AsyncExitStack() as opened:
        for _ in range(3):
            await opened.enter_async_context(connected(port, None))
        await until(lambda: len(server.connections.all) == 3)
        # A fourth makes room for itself: one of the slow ones is closed.
        async with connected(port, files.client()[0]) as streams:
            assert await exchange(*streams, b"x") == ("None None", b"x")
            assert len(server.connections.all) == 3
            monkeypatch.setattr(limits, "FIRST_OCTET_TIMEOUT_S", 0)
            await until(lambda: len(server.connections.all) == 1)
            assert await exchange(*streams, b"y") == ("None None", b"y")
