"""HTTP/1.1 over real sockets: what is answered, what is hung up on, what happens when the client goes away."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pixconnect.api import http_protocol
from pixconnect.api.http_protocol import HEAD_MAX, UNREAD_MAX, Connection, make_server

Handler = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, octets: bytes) -> None:
        self.writer.write(octets)
        await self.writer.drain()

    async def answer(self) -> tuple[bytes, dict[bytes, bytes], bytes]:
        """Status line, headers, body (by length or chunks)."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)
        status, *lines = head[:-4].split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        if b"content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers[b"content-length"]))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return status, headers, body

    async def is_hung_up(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(), 60) == b""
        except ConnectionResetError:
            return True


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Says what it was asked."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    text = b"%b %b?%b %b" % (scope["method"].encode(), scope["raw_path"], scope["query_string"], body)
    headers = [(b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def serving(app: Handler) -> AsyncIterator[tuple[http_protocol.Server, Callable[[], Awaitable[Client]]]]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = make_server(app)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        opened: list[Client] = []

        async def connect() -> Client:
            opened.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return opened[-1]

        try:
            yield server, connect
        finally:
            server.should_exit = True
            await asyncio.wait_for(task, 60)
            for client in opened:
                client.writer.close()


async def test_a_request_and_its_answer() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        for _ in range(2):
            await client.send(b"POST /a%2Fb?x=1+2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
            status, headers, body = await client.answer()
            assert (status, body) == (b"HTTP/1.1 200 OK", b"POST /a%2Fb?x=1+2 abc")
            assert b"date" in headers
            assert b"server" not in headers


async def test_a_body_in_pieces_and_chunks() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        for part in (b"POST /", b"x HTTP/1.1\r\nHo", b"st: h\r\nContent-Length: 4\r\n\r\na", b"bc", b"d"):
            await client.send(part)
            await asyncio.sleep(0.01)
        assert (await client.answer())[2] == b"POST /x? abcd"
        await client.send(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
        )
        assert (await client.answer())[2] == b"POST /? abc"


async def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(20)))
        assert [(await client.answer())[2] for _ in range(20)] == [b"GET /%d? " % number for number in range(20)]


async def test_head_has_the_length_and_no_body() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(b"HEAD /x HTTP/1.1\r\nHost: h\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\n\r\n")
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 9" in head
        assert (await client.answer())[2] == b"GET /y? "


async def test_a_client_that_waits_for_100_continue_hears_it() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"x")
        assert (await client.answer())[2] == b"POST /? x"


async def refuse(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Answers without having read."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def test_a_body_that_nobody_reads_is_thrown_away_and_the_next_request_answered() -> None:
    async with serving(refuse) as (_, connect):
        client = await connect()
        for _ in range(2):
            await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000)
            assert (await client.answer())[0] == b"HTTP/1.1 401 Unauthorized"


async def test_a_body_that_nobody_reads_is_not_thrown_away_for_ever() -> None:
    async with serving(refuse) as (_, connect):
        client = await connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n")
        await client.answer()
        with pytest.raises(OSError):  # noqa: PT012  which of the writes meets the closed connection is chance
            for _ in range(UNREAD_MAX // 65536 + 200):
                await client.send(b"x" * 65536)
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "octets",
    [
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * HEAD_MAX + b"\r\n\r\n",
        b"GET /" + b"x" * HEAD_MAX + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_MAX // 4) + b"\r\n",
    ],
)
async def test_a_head_over_16_kib_is_431_and_hung_up_on(octets: bytes) -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(octets)
        assert (await client.answer())[0] == b"HTTP/1.1 431 Request Header Fields Too Large"
        assert await client.is_hung_up()


async def test_a_head_without_an_end_is_431() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        for part in [b"GET / HTTP/1.1\r\nX: ", *[b"x" * 4096] * 5]:
            await client.send(part)
            await asyncio.sleep(0.05)
        assert (await client.answer())[0] == b"HTTP/1.1 431 Request Header Fields Too Large"


@pytest.mark.parametrize(
    "octets",
    [
        b"nonsense\r\n\r\n",
        b"FOO / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
        b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: h\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ],
)
async def test_what_is_no_request_is_answered_or_hung_up_on_and_the_server_goes_on(octets: bytes) -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(octets)
        client.writer.write_eof()
        answer = await asyncio.wait_for(client.reader.read(200), 60)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200"))
        other = await connect()
        await other.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await other.answer())[2] == b"GET /? "


async def test_an_absolute_target_is_taken_apart() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(b"GET http://h/a?b=c HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer())[2] == b"GET /a?b=c "


async def test_an_offer_to_upgrade_is_not_taken() -> None:
    async with serving(echo) as (_, connect):
        client = await connect()
        await client.send(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert (await client.answer())[2] == b"GET /a? "


async def test_a_client_that_goes_away_takes_its_request_with_it() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(_scope: dict[str, Any], _receive: Any, _send: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serving(hang) as (_, connect):
        client = await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.wait_for(started.wait(), 60)
        client.writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 60)


async def test_an_answer_of_unknown_length_is_sent_in_chunks() -> None:
    async def stream(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"ab", b"", b"c"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(stream) as (_, connect):
        client = await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        _, headers, body = await client.answer()
        assert (headers[b"transfer-encoding"], body) == (b"chunked", b"abc")


async def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async def stream(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(stream) as (_, connect):
        client = await connect()
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        everything = await asyncio.wait_for(client.reader.read(), 60)
        assert everything.endswith(b"connection: close\r\n\r\nabc")


async def test_an_answer_that_breaks_off_breaks_the_connection() -> None:
    async def break_off(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    async with serving(break_off) as (_, connect):
        client = await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        everything = await asyncio.wait_for(client.reader.read(), 60)
        assert everything.endswith(b"4\r\nhalf\r\n"), "no last chunk: the client must notice"


async def test_a_server_that_stops_finishes_what_is_under_way() -> None:
    started = asyncio.Event()

    async def slow(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        started.set()
        await asyncio.sleep(0.3)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with serving(slow) as (server, connect):
        client, idle = await connect(), await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await started.wait()
        server.should_exit = True
        status, headers, body = await client.answer()
        assert (status, headers[b"connection"], body) == (b"HTTP/1.1 200 OK", b"close", b"ok")
        assert await idle.is_hung_up()


@pytest.mark.parametrize(
    ("octets", "limit"),
    [
        (b"", "KEEP_ALIVE_S"),
        (b"GET / HT", "HEAD_TIMEOUT_S"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx", "BODY_TIMEOUT_S"),
    ],
)
async def test_a_client_that_keeps_us_waiting_is_hung_up_on(octets: bytes, limit: str) -> None:
    async with serving(echo) as (server, connect):
        began_s = asyncio.get_running_loop().time()
        client = await connect()
        await client.send(octets)
        await asyncio.sleep(0.2)
        (connection,) = server.server_state.connections
        assert isinstance(connection, Connection)
        allowed_s = getattr(http_protocol, limit)
        connection.close_if_overdue(began_s + allowed_s - 0.1)
        assert not connection.transport.is_closing()
        connection.close_if_overdue(connection.loop.time() + allowed_s + 1)
        assert await client.is_hung_up()
