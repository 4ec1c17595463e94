"""HTTP/1.1 over real sockets: answers, closed connections, and clients that go away."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import RefusalPace
from pixconnect.platform.http import listening as limits
from pixconnect.platform.http.connection import Connection
from pixconnect.platform.http.exchange import WholeAnswer
from pixconnect.platform.http.listening import BODY_HELD_MAX, HEAD_MAX, UNREAD_BODY_MAX, Connections
from pixconnect.platform.http.server import Server
from support.waiting import until

Handler = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Client:
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
async def serving(app: Handler, **options: Any) -> AsyncIterator[tuple[Server, Callable[[], Awaitable[Client]]]]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = Server(app, **options)
        task = asyncio.create_task(server.serve([listening]))
        opened: list[Client] = []

        async def connect() -> Client:
            opened.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return opened[-1]

        try:
            yield server, connect
        finally:
            server.stop()
            await asyncio.wait_for(task, 60)
            for client in opened:
                client.writer.close()


@asynccontextmanager
async def connected(app: Handler, **options: Any) -> AsyncIterator[Client]:
    async with serving(app, **options) as (_, connect):
        yield await connect()


async def test_a_request_and_its_answer() -> None:
    async with connected(echo) as client:
        for _ in range(2):
            await client.send(b"POST /a%2Fb?x=1+2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
            status, headers, body = await client.answer()
            assert (status, body) == (b"HTTP/1.1 200 OK", b"POST /a%2Fb?x=1+2 abc")
            assert b"date" in headers
            assert b"server" not in headers


async def test_a_body_in_pieces_and_chunks() -> None:
    async with connected(echo) as client:
        for part in (b"POST /", b"x HTTP/1.1\r\nHo", b"st: h\r\nContent-Length: 4\r\n\r\na", b"bc", b"d"):
            await client.send(part)
            await asyncio.sleep(0.01)
        assert (await client.answer())[2] == b"POST /x? abcd"
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        assert (await client.answer())[2] == b"POST /? abc"


async def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    async with connected(echo) as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(20)))
        assert [(await client.answer())[2] for _ in range(20)] == [b"GET /%d? " % number for number in range(20)]


async def test_head_has_the_length_and_no_body() -> None:
    async with connected(echo) as client:
        await client.send(b"HEAD /x HTTP/1.1\r\nHost: h\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\n\r\n")
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 9" in head
        assert (await client.answer())[2] == b"GET /y? "


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_length_and_no_chunks(status: int) -> None:
    async def answer_nothing(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with connected(answer_nothing) as client:
        for _ in range(2):
            await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            head = (await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 60)).lower()
            assert head.startswith(b"http/1.1 %d " % status)
            assert b"content-length" not in head
            assert b"transfer-encoding" not in head


async def test_a_client_that_waits_for_100_continue_hears_it() -> None:
    async with connected(echo) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"x")
        assert (await client.answer())[2] == b"POST /? x"


class Prompt:
    """Answers at once, to posts alone."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await echo(scope, receive, send)

    def answer_at_once(self, scope: dict[str, Any]) -> WholeAnswer | None:
        if scope["method"] != "POST":
            return None
        body = b"no " + scope["raw_path"]
        headers = [(b"retry-after", b"1"), (b"content-length", b"%d" % len(body))]
        return WholeAnswer(503, headers, body, 60.0 if body == b"no /later" else 0.0)


async def test_answers_at_once_keep_their_order_and_drop_the_bodies() -> None:
    async with connected(Prompt()) as client:
        post, get = (b"POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n")
        await client.send(b"".join((get if number % 5 == 4 else post) % number for number in range(700)))
        for number in range(700):
            expected = b"GET /%d? " if number % 5 == 4 else b"no /%d"
            assert (await client.answer())[2] == expected % number


async def test_a_body_that_comes_after_its_answer_is_dropped() -> None:
    async with connected(Prompt()) as client:
        await client.send(b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n")
        status, headers, body = await client.answer()
        assert (status, headers[b"retry-after"], body) == (b"HTTP/1.1 503 Service Unavailable", b"1", b"no /1")
        await client.send(b"abcGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.answer())[2] == b"GET /2? "
        # After an announced body the server cannot find the beginning of the next request.
        await client.send(b"POST /3 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.answer())[1][b"connection"] == b"close"
        assert await client.is_hung_up()


async def test_a_client_that_is_gone_before_an_answer_at_once_leaves_nothing() -> None:
    async with serving(Prompt()) as (server, connect):
        for path in (b"/1", b"/later"):
            client = await connect()
            client.writer.write(b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n" % path)
            await until(lambda: bool(server.connections.all))
            (connection,) = server.connections.all
            client.writer.transport.abort()
            await until(lambda: not server.connections.all)
            assert not server.connections.tasks
            gone = weakref.ref(connection)
            del connection
            await until(lambda: gone() is None)  # noqa: B023 - called at once


async def refuse_later(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"2")]
    await send(
        {
            "type": "http.response.start",
            "status": 400,
            "headers": headers,
            "delay_s": 60.0 if scope["raw_path"] == b"/later" else 0.1,
        }
    )
    await send({"type": "http.response.body", "body": b"no"})


@pytest.mark.parametrize("app", [refuse_later, Prompt()], ids=["later", "at once and later"])
async def test_a_body_is_not_held_while_its_refusal_waits(app: Any) -> None:
    async with serving(app) as (server, connect):
        client = await connect()
        head = b"POST /later HTTP/1.1\r\nHost: h\r\nContent-Length: 140000\r\n\r\n"
        await client.send(head + b"x" * 10_000)
        await until(lambda: any(one._running and one._running.is_answered for one in server.connections.all))
        (connection,) = server.connections.all
        await client.send(b"x" * 120_000)
        await until(lambda: connection._unread_octets >= 120_000)
        assert (server.connections.held_octets, connection._running.body) == (0, b"")
        assert (len(server.connections.tasks), connection.flow.read_paused) == (0, False)
        connection.hang_up()


async def test_an_answer_that_is_sent_later_is_followed_by_the_next() -> None:
    async with connected(refuse_later) as client:
        for _ in range(2):
            await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        for _ in range(2):
            assert (await client.answer())[::2] == (b"HTTP/1.1 400 Bad Request", b"no")


async def refuse(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


# The second is an octet more than a lot of charges may have.
@pytest.mark.parametrize("octets", [70_000, 4 * 1024 * 1024 + 1])
async def test_a_body_that_nobody_reads_is_thrown_away_and_the_next_request_answered(octets: int) -> None:
    async with connected(refuse) as client:
        for _ in range(2):
            await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % octets + b"x" * octets)
            assert (await client.answer())[0] == b"HTTP/1.1 401 Unauthorized"


async def test_a_body_of_which_no_more_was_held_is_thrown_away_too_once_it_is_refused() -> None:
    async def refuse_late(scope: dict[str, Any], receive: Any, send: Any) -> None:
        for _ in range(50):  # rounds in which the body comes, until no more of it is held
            await asyncio.sleep(0)
        await refuse(scope, receive, send)

    async with connected(refuse_late) as client:
        for _ in range(2):
            body = b"x" * 2 * BODY_HELD_MAX
            await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            assert (await client.answer())[0] == b"HTTP/1.1 401 Unauthorized"


async def test_a_body_that_nobody_reads_is_not_thrown_away_for_ever() -> None:
    async with connected(refuse) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n")
        await client.answer()
        with pytest.raises(OSError):  # noqa: PT012  which of the writes meets the closed connection is chance
            for _ in range(UNREAD_BODY_MAX // 65536 + 200):
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
    async with connected(echo) as client:
        await client.send(octets)
        assert (await client.answer())[0] == b"HTTP/1.1 431 Request Header Fields Too Large"
        assert await client.is_hung_up()


async def test_a_head_without_an_end_is_431() -> None:
    async with connected(echo) as client:
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
        b"\r\n" * 9000,
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


@pytest.mark.parametrize(
    ("opening", "headers"),
    [
        (b"http://h/a?b=c HTTP/1.1", b"Host: h"),
        (b"/a?b=c HTTP/1.1", b"Host: h\r\nConnection: Upgrade\r\nUpgrade: h2c"),
        (b"/a?b=c HTTP/1.0", b"X: HTTP/1.0 needs no host"),
        (b"/a?b=c HTTP/1.1", b"Host:"),
        (b"/a?b=c HTTP/1.1", b"Host: [::1]:80"),
    ],
    ids=["absolute", "offer to upgrade", "no host", "empty host", "host with a port"],
)
async def test_a_target_is_taken_as_it_is_meant(opening: bytes, headers: bytes) -> None:
    async with connected(echo) as client:
        await client.send(b"GET %b\r\n%b\r\n\r\n" % (opening, headers))
        assert (await client.answer())[2] == b"GET /a?b=c "


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 5", b"hello"),
        (b"Content-Length: 0", b""),
        (b"Transfer-Encoding: chunked", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\nTrailer: t\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 7, 1000])
async def test_an_offer_to_upgrade_loses_no_body(framing: bytes, body: bytes, at_once: int) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n%b\r\n\r\n" % framing
    octets = head + body
    pieces = [octets[start : start + at_once] for start in range(0, len(octets), at_once)]
    # With the last piece, so that it is there before the answer.
    pieces[-1] += b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
    async with connected(echo) as client:
        for piece in pieces:
            await client.send(piece)
        status, _, content = await client.answer()
        assert (status, content) == (b"HTTP/1.1 200 OK", b"POST /a? " + (b"hello" if body else b""))
        # Later octets are not read, as after any last request.
        assert await client.is_hung_up()


@pytest.mark.parametrize("method", [b"POST", b"GET"])
@pytest.mark.parametrize("offer", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
@pytest.mark.parametrize("coding", [b"xchunked", b"gzip, chunked", b"chunked, chunked", b"identity"])
async def test_another_body_coding_than_chunked_is_refused_at_once(method: bytes, offer: bytes, coding: bytes) -> None:
    async with connected(echo) as client:
        await client.send(
            b"%b /a HTTP/1.1\r\nHost: h\r\n%bTransfer-Encoding: %b\r\n\r\n1\r\na\r\n0\r\n\r\n" % (method, offer, coding)
        )
        assert (await client.answer())[0] == b"HTTP/1.1 400 Bad Request"
        assert await client.is_hung_up()


async def test_a_client_that_goes_away_takes_its_request_with_it() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(_scope: dict[str, Any], _receive: Any, _send: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with connected(hang) as client:
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

    async with connected(stream) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        _, headers, body = await client.answer()
        assert (headers[b"transfer-encoding"], body) == (b"chunked", b"abc")


async def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async def stream(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with connected(stream) as client:
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        everything = await asyncio.wait_for(client.reader.read(), 60)
        assert everything.endswith(b"connection: close\r\n\r\nabc")


async def test_an_answer_that_breaks_off_breaks_the_connection() -> None:
    async def break_off(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    async with connected(break_off) as client:
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
        server.stop()
        status, headers, body = await client.answer()
        assert (status, headers[b"connection"], body) == (b"HTTP/1.1 200 OK", b"close", b"ok")
        assert await idle.is_hung_up()


@pytest.mark.parametrize(
    ("octets", "limit"),
    [
        (b"", "FIRST_OCTET_TIMEOUT_S"),
        (b"\r\n", "FIRST_OCTET_TIMEOUT_S"),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "KEEP_ALIVE_S"),
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
        (connection,) = server.connections.all
        allowed_s = getattr(limits, limit)
        connection.close_if_overdue(began_s + allowed_s - 0.1)
        assert not connection.transport.is_closing()
        connection.close_if_overdue(connection.loop.time() + allowed_s + 1)
        with suppress(ConnectionResetError):
            await asyncio.wait_for(client.reader.read(), 60)  # to the end


@pytest.mark.parametrize(
    "octets",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\nHost: h\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /  HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
@pytest.mark.parametrize("pieces", [1, 1000], ids=["whole", "octet by octet"])
async def test_what_the_standard_refuses_is_refused(octets: bytes, pieces: int) -> None:
    async with connected(echo) as client:
        await send_in(client, octets, pieces)
        assert (await client.answer())[0] == b"HTTP/1.1 400 Bad Request"
        assert await client.is_hung_up()


async def test_blanks_around_a_header_are_not_of_its_value() -> None:
    async with connected(echo) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost:  h \t\r\nExpect: 100-continue \r\nContent-Length: 3 \r\n\r\n")
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        await client.send(b"abc")
        assert (await client.answer())[0] == b"HTTP/1.1 200 OK"


async def test_more_than_128_headers_are_431() -> None:
    async with connected(echo) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 127 + b"\r\n")
        assert (await client.answer())[0] == b"HTTP/1.1 200 OK"
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 128 + b"\r\n")
        assert (await client.answer())[0] == b"HTTP/1.1 431 Request Header Fields Too Large"


async def send_in(client: Client, octets: bytes, pieces: int) -> None:
    size = max(1, len(octets) // pieces)
    for start in range(0, len(octets), size):
        await client.send(octets[start : start + size])
        await asyncio.sleep(0)


async def test_thousands_of_requests_sent_ahead_stay_in_the_socket_and_are_answered_in_their_order() -> None:
    """Sixty megabytes of them used more than two gigabytes."""
    may_go_on, longest = asyncio.Event(), 0

    async def look(scope: dict[str, Any], receive: Any, send: Any) -> None:
        nonlocal longest
        (connection,) = server.connections.all
        longest = max(longest, len(connection._waiting), len(connection._rest) // limits.SLICE_MAX)
        await may_go_on.wait()
        await echo(scope, receive, send)

    async with serving(look) as (server, connect):
        client = await connect()
        count = 5000
        requests = b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(count))
        client.writer.write(requests)
        await asyncio.sleep(0.2)
        may_go_on.set()
        for number in range(count):
            assert (await client.answer())[2] == b"GET /%d? " % number
        assert longest <= 1
        assert server.connections.held_octets == 0


async def tell_headers(scope: dict[str, Any], receive: Any, send: Any) -> None:
    while (await receive())["more_body"]:
        pass
    text = b",".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("pieces", [1, 1000], ids=["whole", "octet by octet"])
async def test_a_trailer_is_no_header(pieces: int) -> None:
    trailers = b"Authorization: Bearer x\r\nX-Forwarded-For: 203.0.113.9\r\n"
    async with connected(tell_headers) as client:
        for _ in range(2):
            await send_in(client, CHUNKED + b"1\r\na\r\n0\r\n" + trailers + b"\r\n", pieces)
            assert (await client.answer())[2] == b"host,transfer-encoding"


@pytest.mark.parametrize(
    "octets",
    [
        CHUNKED + b"0\r\n" + b"ab:cd\r\n" * 200,
        CHUNKED + b"0\r\n" + b"ab:cd\r\n" * 200 + b"\r\n",
        CHUNKED + b"0\r\nx: " + b"y" * 20_000,
        CHUNKED + b"1;" + b"y" * 20_000,
        CHUNKED[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n0\r\n" + b"ab:cd\r\n" * 200,
        CHUNKED + b"1\r\na\r\n" * 400,
        CHUNKED + (b"1;" + b"y" * 1000 + b"\r\na\r\n") * 2,
        CHUNKED + b"1000\r\n" + b"\r\n" * 0x800 + b"\r\n",
    ],
    ids=["fields", "complete", "value", "extension", "upgrade", "octets", "extensions", "blank lines"],
)
async def test_more_than_1_kib_around_chunks_is_refused_once_and_hung_up_on(octets: bytes) -> None:
    async with connected(tell_headers) as client:
        await client.send(octets)
        assert (await client.answer())[0] == b"HTTP/1.1 400 Bad Request"
        assert await client.is_hung_up()


async def answer_what_breaks(scope: dict[str, Any], receive: Any, send: Any) -> None:
    try:
        await tell_headers(scope, receive, send)
    except errors.BadRequest as refusal:
        text = refusal.message.encode()
        await send({"type": "http.response.start", "status": 400, "headers": [(b"content-length", b"%d" % len(text))]})
        await send({"type": "http.response.body", "body": text})


@pytest.mark.parametrize(
    "octets", [b"1000\r\n" + b"\r\n" * 0x800 + b"\r\n", b"1\r\na\r\n" * 400, b"xyz\r\n"], ids=["blank lines", "octets", "none"]
)
async def test_an_application_answers_a_body_that_breaks_in_its_own_form(octets: bytes) -> None:
    async with connected(answer_what_breaks) as client:
        await client.send(CHUNKED + octets)
        # What the client still sends resets no connection before it has read the answer.
        await client.send(b"x" * 50_000)
        status, headers, body = await client.answer()
        assert (status, headers[b"connection"], body[:6]) == (b"HTTP/1.1 400 Bad Request", b"close", b"body: ")
        assert await client.is_hung_up()


class Held:
    """Reads the body, and answers when the test releases it."""

    def __init__(self) -> None:
        self.has_begun, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        self.has_begun.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def answer_after_what_was_sent(self) -> None:
        # The loop reads sockets before its timers, however long it was suspended.
        await asyncio.sleep(0.05)
        self.may_answer.set()


@pytest.mark.parametrize(
    "garbage", [b"garbage\r\n\r\n", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"A" * 20_000], ids=["word", "zero", "no host", "long"]
)
@pytest.mark.parametrize("waits_s", [0.0, 0.03])
async def test_what_is_owed_an_answer_gets_it_and_no_refusal(garbage: bytes, waits_s: float) -> None:
    held = Held()
    async with connected(held) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab")
        await asyncio.sleep(waits_s)
        await client.send(garbage)
        await held.answer_after_what_was_sent()
        status, headers, body = await client.answer()
        assert (status, headers.get(b"connection"), body) == (b"HTTP/1.1 200 OK", b"close", b"ok")
        assert await client.is_hung_up()


async def test_a_request_whose_body_cannot_be_read_is_refused_after_the_answer_before_it() -> None:
    held = Held()
    async with connected(held) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" + CHUNKED + b"xyz\r\n")
        await held.answer_after_what_was_sent()
        assert [(await client.answer())[0] for _ in range(2)] == [b"HTTP/1.1 200 OK", b"HTTP/1.1 400 Bad Request"]
        assert await client.is_hung_up()


async def test_each_of_those_sent_ahead_is_answered_before_garbage_ends_the_connection() -> None:
    held = Held()
    async with connected(held) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 3 + b"garbage\r\n\r\n")
        await held.answer_after_what_was_sent()
        answers = [await client.answer() for _ in range(3)]
        assert [answer[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * 3
        assert b"connection" not in answers[1][1]
        assert answers[2][1][b"connection"] == b"close"
        assert await client.is_hung_up()


async def test_a_request_that_was_answered_already_is_not_refused_for_its_body_as_well() -> None:
    async with connected(refuse) as client:
        await client.send(CHUNKED)
        assert (await client.answer())[0] == b"HTTP/1.1 401 Unauthorized"
        await client.send(b"xyz\r\n")
        assert await client.is_hung_up()


async def test_no_chunk_is_parsed_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(Connection, "on_body", lambda _, body: parsed.append(body))
    async with connected(refuse) as client:
        await client.send(CHUNKED)
        status, headers, _ = await client.answer()
        assert (status, headers[b"connection"]) == (b"HTTP/1.1 401 Unauthorized", b"close")
        for _ in range(10):
            await client.send(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
            await asyncio.sleep(0.001)
        assert await client.is_hung_up()
    assert not parsed


async def test_few_chunks_of_an_octet_are_parsed_before_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(Connection, "on_body", lambda _, body: parsed.append(body))
    async with connected(tell_headers) as client:
        await client.send(CHUNKED + b"1\r\na\r\n" * 10_000)
        assert (await client.answer())[0] == b"HTTP/1.1 400 Bad Request"
    assert len(parsed) < 500


async def test_chunks_of_64_octets_and_trailers_are_taken() -> None:
    chunks = b"40\r\n" + b"x" * 64 + b"\r\n"
    async with connected(echo) as client:
        for _ in range(2):
            await client.send(CHUNKED + chunks * 1000 + b"0\r\n" + b"ab:cd\r\n" * 100 + b"\r\n")
            assert len((await client.answer())[2]) == len("POST /? ") + 64_000


async def test_a_half_of_the_next_head_does_not_cost_the_answer_to_the_request_before() -> None:
    held = Held()
    async with serving(held) as (server, connect):
        client = await connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HT")
        await held.has_begun.wait()
        (connection,) = server.connections.all
        connection.close_if_overdue(connection.loop.time() + limits.HEAD_TIMEOUT_S + 1)
        held.may_answer.set()
        status, headers, _ = await client.answer()
        assert (status, headers[b"connection"]) == (b"HTTP/1.1 200 OK", b"close")


async def test_at_the_bound_the_longest_idle_of_whoever_has_most_makes_room() -> None:
    async with serving(echo, connections_max=4) as (server, connect):
        clients = [await connect() for _ in range(4)]
        await asyncio.sleep(0.05)
        await clients[0].send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await clients[0].answer()  # so that it is the one that was busy last
        newest = await connect()
        await newest.send(b"GET /new HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await newest.answer())[2] == b"GET /new? "
        assert await clients[1].is_hung_up()
        await clients[0].send(b"GET /old HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await clients[0].answer())[2] == b"GET /old? "
        assert len(server.connections.all) == 4


async def test_who_waits_for_an_answer_never_makes_room() -> None:
    held = Held()
    async with serving(held, connections_max=1) as (_, connect):
        first = await connect()
        await first.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await held.has_begun.wait()
        second = await connect()
        assert await second.is_hung_up()
        held.may_answer.set()
        assert (await first.answer())[0] == b"HTTP/1.1 200 OK"


def test_of_several_addresses_the_one_with_most_connections_makes_room() -> None:
    connections = Connections(4)
    members = [FakeConnection(connections, address, since_s) for since_s, address in enumerate("abbbc")]
    for member in members:
        connections.add(cast(Any, member))
    assert [member.is_hung_up for member in members] == [False, True, False, False, False]


class FakeConnection:
    """The attributes of a connection that the total limits read."""

    def __init__(self, connections: Connections, address: str, since_s: float, unsent: int = 0) -> None:
        self.connections = connections
        self.address = address
        self.waits_since_s = since_s
        self.keeps_us_waiting = True
        self.held_octets = 0
        self.is_hung_up = False
        self.unsent = unsent
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def hang_up(self) -> None:
        self.connections.remove(cast(Any, self))
        self.is_hung_up = True


def test_those_who_keep_us_waiting_longest_with_half_a_request_go_when_too_much_is_held() -> None:
    connections = Connections(1000)
    members = [FakeConnection(connections, "a", since_s) for since_s in range(70)]
    for member in members:
        connections.add(cast(Any, member))
        connections.hold(cast(Any, member), 1024 * 1024)
    assert connections.held_octets <= limits.HELD_IN_ALL_MAX
    gone = [member.is_hung_up for member in members]
    assert gone == sorted(gone, reverse=True)
    assert 6 <= sum(gone) <= 8
    for member in members:
        connections.remove(cast(Any, member))
    assert connections.held_octets == 0


def test_the_slowest_readers_go_when_too_much_is_unsent() -> None:
    connections, each = Connections(1000), 2 * 1024 * 1024
    members = [FakeConnection(connections, "a", 0, each) for _ in range(40)]
    for number, member in enumerate(members):
        connections.add(cast(Any, member))
        connections.stalls(cast(Any, member), now_s=float(number))
    for member in members[:20]:
        member.unsent -= 100_000  # these read, if slowly
    connections.bound_unsent(now_s=50)
    assert not any(member.is_hung_up for member in members[:20])
    assert 7 <= sum(member.is_hung_up for member in members[20:]) <= 9
    assert connections.unsent_octets <= limits.UNSENT_IN_ALL_MAX
    for member in members:
        connections.remove(cast(Any, member))
    assert connections.unsent_octets == 0


async def test_answers_that_nobody_reads_are_bounded_and_others_are_answered() -> None:
    async def large(scope: dict[str, Any], _receive: Any, send: Any) -> None:
        text = b"x" * (8 * 1024 * 1024 if scope["raw_path"] == b"/large" else 2)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
        await send({"type": "http.response.body", "body": text})

    async with serving(large) as (server, connect):
        for _ in range(25):
            client = await connect()
            client.writer.transport.pause_reading()
            await client.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        other = await connect()
        await until(lambda: len(server.connections.all) < 20)
        await other.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
        assert len((await other.answer())[2]) == 8 * 1024 * 1024


async def test_a_connection_that_ended_leaves_nothing_to_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        async with serving(echo) as (server, connect):
            client = await connect()
            await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc")
            await asyncio.sleep(0.05)
            kept = weakref.ref(next(iter(server.connections.all)))
            client.writer.transport.abort()
            await until(lambda: kept() is None)
    finally:
        gc.enable()


async def test_every_answer_has_the_headers_of_the_server_a_refusal_too() -> None:
    async with serving(echo, headers=[("x-content-type-options", "nosniff")]) as (_, connect):
        for octets in (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"nonsense\r\n\r\n"):
            client = await connect()
            await client.send(octets)
            assert (await client.answer())[1][b"x-content-type-options"] == b"nosniff"


async def test_bare_refusals_of_a_flood_are_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def delay_s(_: RefusalPace, address: str, __: float) -> float:
        asked.append(address)
        return 0.2

    monkeypatch.setattr(RefusalPace, "delay_s", delay_s)
    async with connected(tell_headers) as client:
        began_s = asyncio.get_running_loop().time()
        await client.send(CHUNKED + b"1\r\na\r\n" * 400)
        assert (await client.answer())[0] == b"HTTP/1.1 400 Bad Request"
        assert await client.is_hung_up()
        assert asyncio.get_running_loop().time() - began_s >= 0.2
    assert asked == ["127.0.0.1"]
