"""Posting to good, hostile and moving receivers, over real sockets on loopback."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from pixconnect.platform.adapters import outgoing_http as idle_connections
from pixconnect.platform.adapters.name_lookup import Lookup, NameLookups
from pixconnect.platform.adapters.outgoing_http import (
    NO_CONNECTION,
    ClientCertificateError,
    ExchangeLimits,
    OutgoingHttp,
    WebhookSender,
    make_tls,
)
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import parse_named_hosts
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from pixconnect.platform.http.client import HttpConnection
from support.ports import reserved_port
from support.tls import Authority
from support.webhooks import Behaviour, Received, answer, answering, open_http, open_receiver

IMPATIENT = {"connect_s": 0.5, "exchange_s": 2.0}


@asynccontextmanager
async def open_sender(
    lookup: Lookup | None = None, tls: ssl.SSLContext | None = None, *, allows_loopback: bool = True, **limits: float
) -> AsyncIterator[WebhookSender]:
    """Patient, so that no test depends on the machine's speed; ``IMPATIENT`` for time-outs."""
    async with open_http(lookup, tls, **({"connect_s": 60.0, "exchange_s": 60.0} | limits)) as http:
        yield WebhookSender(http, allows_loopback=allows_loopback)


async def post(sender: WebhookSender, url: str) -> WebhookExchange:
    return await sender.post(url, [("Content-Type", "application/json")], b'{"id":1}')


async def post_to(behave: Behaviour, **limits: float) -> WebhookExchange:
    async with open_receiver(behave) as receiver, open_sender(**limits) as sender:
        return await post(sender, receiver.url)


def writing(octets: bytes, *, then: str = "close") -> Behaviour:
    """Sends some octets and then closes, resets or hangs."""

    async def behave(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(octets)
        await writer.drain()
        if then == "hang":
            await asyncio.sleep(600)
        if then == "reset":
            await asyncio.sleep(0.05)
            opened: socket.socket = writer.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    return behave


def repeating(head: bytes, chunk: bytes, pause_s: float = 0.0) -> Behaviour:
    """Sends a head and then chunks until the client closes."""

    async def behave(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return behave


async def test_a_good_answer_is_what_it_is() -> None:
    exchange = await post_to(answering(202, b"thank you", Retry_After="7"))
    assert (exchange.status_code, exchange.error) == (202, None)
    assert (exchange.response, exchange.retry_after) == (b"thank you", "7")
    assert 0 < exchange.duration_us < 60_000_000


async def test_the_request_is_plain_http() -> None:
    async with open_receiver() as receiver, open_sender() as sender:
        await sender.post(receiver.url + "?a=b&c=%2F", [("X-One", "1")], b"body")
        (request,) = receiver.received
    assert request.path == "/hook?a=b&c=%2F"
    assert request.headers == {
        "Host": f"127.0.0.1:{receiver.port}",
        "X-One": "1",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Length": "4",
    }
    assert request.body == b"body"


async def test_a_connection_is_kept_and_used_again() -> None:
    async with open_receiver() as receiver, open_sender() as sender:
        for _ in range(5):
            await post(sender, receiver.url)
        await asyncio.gather(*(post(sender, receiver.url) for _ in range(3)))
    assert len(receiver.received) == 8
    assert receiver.connections_count == 3


@pytest.mark.parametrize("ending", ["Connection: close", "Content-Length: 0\r\nConnection: close"])
async def test_a_connection_is_not_used_again_when_the_receiver_says_so(ending: str) -> None:
    async with open_receiver(writing(f"HTTP/1.1 200 OK\r\n{ending}\r\n\r\n".encode())) as receiver, open_sender() as sender:
        first, second = await post(sender, receiver.url), await post(sender, receiver.url)
    assert (first.error, second.error) == (None, None)
    assert receiver.connections_count == 2


async def test_a_kept_connection_that_was_closed_meanwhile_is_no_failure() -> None:
    async def answer_and_close(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        await writer.drain()
        asyncio.get_running_loop().call_later(0.0, writer.close)

    async with open_receiver(answer_and_close) as receiver, open_sender() as sender:
        for _ in range(5):
            exchange = await post(sender, receiver.url)
            assert exchange.error is None


@pytest.mark.parametrize(
    ("octets", "status_code", "response"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n", 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok", 201, b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more than was promised", 200, b"ok"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", 200, b"\x1f\x8b\x08\x00"),
    ],
)
async def test_answers_that_http_allows(octets: bytes, status_code: int, response: bytes) -> None:
    exchange = await post_to(writing(octets))
    assert (exchange.status_code, exchange.response, exchange.error) == (status_code, response, None)


@pytest.mark.parametrize(
    ("octets", "then", "status_code", "error"),
    [
        (b"", "close", None, "the connection was closed before an answer"),
        (b"", "reset", None, "the connection was reset before an answer"),
        (b"", "hang", None, "no answer within 2 s"),
        (b"HTTP/1.1 200 OK\r\nX-H", "close", None, "the connection was closed in the answer's head"),
        (b"HTTP/1.1 200 OK\r\nX-H", "reset", None, "the connection was reset in the answer's head"),
        (b"HTTP/1.1 200 OK\r\nX-H", "hang", None, "no answer within 2 s"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
            "close",
            200,
            "the connection was closed before the answer was complete",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "reset", 200, "the connection was reset in the answer's body"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "hang", 200, "the answer was not complete in time"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
            "close",
            200,
            "the connection was closed before the answer was complete",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "close", None, "the connection was closed in the answer's head"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "hang", None, "the receiver changed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "hang", None, "the answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "hang", None, "the answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "hang", None, "the answer is not valid"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "hang",
            None,
            "the answer is not valid HTTP",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "hang", None, "the answer is not valid HTTP"),
    ],
)
async def test_a_hostile_answer_is_recorded(octets: bytes, then: str, status_code: int | None, error: str) -> None:
    is_timeout = error.startswith("no answer") or error.endswith("in time")
    started_s = time.monotonic()
    exchange = await post_to(writing(octets, then=then), **({"exchange_s": 2.0} if is_timeout else {}))
    assert exchange.status_code == status_code
    assert exchange.error is not None
    assert exchange.error.startswith(error)
    assert time.monotonic() - started_s < 60


@pytest.mark.parametrize(
    ("head", "chunk"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"a" * 500 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Endless: ", b"a" * 500),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 ", b"a" * 500),
    ],
)
async def test_an_endless_head_is_cut_off(head: bytes, chunk: bytes) -> None:
    exchange = await post_to(repeating(head, chunk))
    assert exchange.status_code is None
    assert exchange.error == "the answer's head is over 16 KiB"


@pytest.mark.parametrize(
    ("head", "chunk"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 500),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"a" * 500),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: aaaaaaaaaaaaaaa\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", b"\x1f\x8b" + b"\x00" * 500),
    ],
)
async def test_an_endless_body_is_cut_off_and_the_status_counts(head: bytes, chunk: bytes) -> None:
    exchange = await post_to(repeating(head, chunk))
    assert (exchange.status_code, exchange.error) == (200, None)
    assert len(exchange.response) <= 1024


async def test_few_chunks_of_an_octet_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    on_body = HttpConnection.on_body

    def note(connection: HttpConnection, body: bytes) -> None:
        read.append(body)
        on_body(connection, body)

    monkeypatch.setattr(HttpConnection, "on_body", note)
    exchange = await post_to(repeating(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 10_000))
    assert (exchange.status_code, exchange.error) == (200, None)
    assert 100 < len(read) < 1000


async def test_a_dripping_body_ends_in_time() -> None:
    started_s = time.monotonic()
    dripping = repeating(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"a", pause_s=0.1)
    exchange = await post_to(dripping, exchange_s=2.0)
    assert (exchange.status_code, exchange.error) == (200, "the answer was not complete in time")
    assert 1 <= len(exchange.response) <= 21
    assert time.monotonic() - started_s < 60, "all of it would take 100 s"


async def test_a_refused_connection_says_so() -> None:
    with reserved_port() as port:
        async with open_sender() as sender:
            exchange = await post(sender, f"http://127.0.0.1:{port}/")
    assert (exchange.status_code, exchange.error) == (None, "the connection was refused")


async def test_a_full_backlog_ends_the_try_in_time() -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    async with open_sender(**IMPATIENT) as sender:
        exchanges = await asyncio.gather(*(post(sender, url) for _ in range(5)))
    listening.close()
    assert "no connection within 0.5 s" in {exchange.error for exchange in exchanges}


class Names:
    """A resolver with prepared answers, which counts."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []
        self.pause_s = 0.0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        await asyncio.sleep(self.pause_s)
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, OSError):
            raise found
        return found


FORBIDDEN: list[Sequence[str]] = [
    ["127.0.0.1"], ["10.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["169.254.169.254", "93.184.216.34"], ["::1"],
    ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["fe80::1%lo"], [],
]  # fmt: skip


@pytest.mark.parametrize("answers", FORBIDDEN)
async def test_a_forbidden_address_is_not_connected_to(answers: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    connects: list[object] = []
    monkeypatch.setattr(OutgoingHttp, "_connect_to", lambda *arguments: connects.append(arguments))
    async with open_sender(Names(answers)) as sender:
        exchange = await post(sender, "https://shop.example/")
        with pytest.raises(errors.InvalidWebhookUrl):
            await sender.check_url("https://shop.example/")
    assert exchange.error is not None
    assert exchange.error.startswith("the URL ")
    assert connects == []


async def test_the_connection_is_made_to_the_address_that_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    connects: list[str] = []

    async def refuse(_: OutgoingHttp, __: object, address: str) -> None:
        connects.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(OutgoingHttp, "_connect_to", refuse)
    names = Names(["93.184.216.34", "2606:4700:4700::1111"], ["127.0.0.1"])
    async with open_sender(names) as sender:
        exchange = await post(sender, "https://shop.example/")
    assert connects == ["93.184.216.34", "2606:4700:4700::1111"]
    assert names.asked == [("shop.example", 443)]
    assert (exchange.error, exchange.detail) == (NO_CONNECTION, "the connection was refused")


async def test_a_name_that_does_not_exist_is_refused_with_the_reason() -> None:
    names = Names(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    async with open_sender(names) as sender:
        with pytest.raises(errors.InvalidWebhookUrl) as refused:
            await sender.check_url("https://shop.example/")
        exchange = await post(sender, "https://shop.example/")
    assert refused.value.message == "url: the host's name cannot be resolved: Name or service not known"
    assert exchange.error == "the host's name cannot be resolved: Name or service not known"


async def test_a_name_is_looked_up_once_by_all_who_want_it_at_the_same_time() -> None:
    names = Names(["127.0.0.1"])
    names.pause_s = 0.1
    async with open_receiver() as receiver, open_sender(names) as sender:
        exchanges = await asyncio.gather(*(post(sender, f"http://localhost:{receiver.port}/") for _ in range(9)))
        assert {exchange.error for exchange in exchanges} == {None}
        assert len(names.asked) == 1
        await post(sender, f"http://localhost:{receiver.port}/")
        assert len(names.asked) == 2


async def test_a_name_that_is_looked_up_for_too_long_ends_in_time() -> None:
    names = Names(["127.0.0.1"])
    names.pause_s = 300
    async with open_sender(names, **IMPATIENT) as sender:
        exchange = await post(sender, "http://localhost:9/")
    assert exchange.error == "no connection within 0.5 s"


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert (await post_to(answering())).error is None


async def test_in_live_mode_loopback_cannot_be_reached() -> None:
    async with open_receiver() as receiver, open_sender(allows_loopback=False) as sender:
        exchange = await post(sender, receiver.url)
        assert exchange.error == "the URL must be an https URL"
        exchange = await post(sender, receiver.url.replace("http:", "https:"))
        assert exchange.error == "the URL leads to 127.0.0.1, which is not a public address"
        assert receiver.connections_count == 0


async def test_tls_is_verified_by_name_and_connections_are_kept(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_tls = authority.server_context("localhost")
    async with open_receiver(tls=server_tls) as receiver, open_sender(tls=authority.client_context()) as sender:
        for _ in range(3):
            exchange = await post(sender, f"https://localhost:{receiver.port}/")
            assert exchange.error is None
        assert receiver.connections_count == 1
        assert receiver.received[0].headers["Host"] == f"localhost:{receiver.port}"
        exchange = await post(sender, f"https://127.0.0.1:{receiver.port}/")
        assert exchange.error == (
            "TLS: the certificate cannot be trusted: IP address mismatch, certificate is not valid for '127.0.0.1'."
        )


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with open_receiver(tls=authority.server_context("localhost")) as receiver, open_sender() as sender:
        exchange = await post(sender, f"https://localhost:{receiver.port}/")
    assert exchange.error is not None
    assert exchange.error.startswith("TLS: the certificate cannot be trusted: ")


async def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_tls = authority.server_context("localhost", days_ago=10)
    async with open_receiver(tls=server_tls) as receiver, open_sender(tls=authority.client_context()) as sender:
        exchange = await post(sender, f"https://localhost:{receiver.port}/")
    assert exchange.error == "TLS: the certificate cannot be trusted: certificate has expired"


async def test_a_receiver_that_asks_for_a_certificate_is_shown_ours(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_tls = authority.server_context("localhost")
    server_tls.verify_mode = ssl.CERT_REQUIRED
    server_tls.load_verify_locations(tmp_path / "ca.pem")
    authority.server_context("ours.example.com")
    pair = str(tmp_path / "ours.example.com-0.pem")
    with_ours = make_tls(pair, pair)
    with_ours.load_verify_locations(tmp_path / "ca.pem")
    for tls, status_code in ((authority.client_context(), None), (with_ours, 200)):
        async with open_receiver(tls=server_tls) as receiver, open_sender(tls=tls) as sender:
            exchange = await post(sender, receiver.url.replace("127.0.0.1", "localhost"))
        assert exchange.status_code == status_code, exchange


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("ca.pem", "", "one of the two is missing"),
        ("", "ca.pem", "one of the two is missing"),
        ("ca.pem", "ca.pem", "no certificate and its key in PEM"),
        ("nowhere.pem", "ca.pem", "No such file or directory"),
    ],
)
def test_an_unreadable_certificate_of_ours_is_named(tmp_path: Path, certificate: str, key: str, said: str) -> None:
    Authority(tmp_path)
    files = [str(tmp_path / name) if name else "" for name in (certificate, key)]
    with pytest.raises(ClientCertificateError, match=said):
        make_tls(*files)


async def test_plain_text_where_tls_was_promised_says_so() -> None:
    async with open_receiver() as receiver, open_sender(**IMPATIENT) as sender:
        exchange = await post(sender, f"https://127.0.0.1:{receiver.port}/")
    assert exchange.error is not None
    assert exchange.error.startswith(("TLS: ", "no connection"))


async def test_tls_that_stalls_ends_in_time() -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(5)
    async with open_sender(connect_s=0.5) as sender, asyncio.timeout(30):
        exchange = await post(sender, f"https://127.0.0.1:{listening.getsockname()[1]}/")
    listening.close()
    assert exchange.error == "no connection within 0.5 s"


@pytest.mark.parametrize("status", [200, 204, 299, 301, 400, 404, 410, 500, 503])
async def test_a_connection_is_kept_only_by_who_takes_what_is_sent(status: int) -> None:
    async with open_receiver(answering(status, b"")) as receiver, open_sender() as sender:
        for _ in range(3):
            assert (await post(sender, receiver.url)).status_code == status
    assert receiver.connections_count == (1 if status < 300 else 3)


async def test_of_all_receivers_together_so_many_connections_are_kept() -> None:
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(open_receiver()) for _ in range(8)]
        http = await stack.enter_async_context(open_http(connect_s=60.0, exchange_s=60.0, idle_max=5))
        sender = WebhookSender(http, allows_loopback=True)
        for receiver in receivers:
            await post(sender, receiver.url)
        assert len(http._idle) == 5
        for receiver in reversed(receivers):
            await post(sender, receiver.url)
        assert len(http._idle) == 5
        # The oldest was closed, and those of the latest five were used again.
        assert [receiver.connections_count for receiver in receivers] == [2, 2, 2, 1, 1, 1, 1, 1]


async def test_half_of_the_connections_that_are_kept_may_be_to_one_address() -> None:
    all_are_there, waiting = asyncio.Event(), 0

    async def meet(_: Received, __: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        waiting += 1
        if waiting >= 6:
            all_are_there.set()
        await all_are_there.wait()
        writer.write(answer())

    async with open_receiver(meet) as receiver, open_http(connect_s=60.0, exchange_s=60.0, idle_max=8) as http:
        sender = WebhookSender(http, allows_loopback=True)
        await asyncio.gather(*(post(sender, receiver.url) for _ in range(6)))
        assert (receiver.connections_count, len(http._idle)) == (6, 4)


async def test_nothing_is_left_of_targets_that_are_used_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_receiver() as receiver, open_http(connect_s=60.0, exchange_s=60.0) as http:
        await asyncio.gather(*(post(WebhookSender(http, allows_loopback=True), receiver.url) for _ in range(3)))
        assert len(http._idle) == 3
        sweep = http._idle._sweep
        assert sweep is not None
        monkeypatch.setattr(idle_connections, "IDLE_S", 0.0)
        # As the loop does when the timer ends.
        sweep.cancel()
        http._idle._close_idle()
        assert (len(http._idle), http._idle._sweep) == (0, None)
        assert http._idle._of_address == {}


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ConnectionRefusedError(), "the connection was refused"),
        (ConnectionResetError(), "the connection was reset before an answer"),
        (TimeoutError(), "no connection within 60 s"),
        (OSError(113, "No route to host"), "no connection: No route to host"),
        (ssl.SSLError(1, "wrong version number"), "TLS: the handshake failed"),
        (ssl.SSLCertVerificationError(1, "certificate has expired"), "TLS: the certificate cannot be trusted: "),
    ],
)
async def test_of_a_public_host_its_owner_does_not_hear_which_of_its_ports_are_open(
    error: Exception, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = ""

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(OutgoingHttp, "_connect_to", fail)
    async with open_sender(Names(["93.184.216.34"])) as sender:
        exchange = await post(sender, "https://shop.example:8443/")
    assert (exchange.status_code, exchange.error, exchange.detail) == (None, NO_CONNECTION, detail)


async def test_judging_a_url_ends_in_time() -> None:
    names = Names(["93.184.216.34"])
    names.pause_s = 300
    async with open_sender(names, **IMPATIENT) as sender, asyncio.timeout(60):
        with pytest.raises(errors.InvalidWebhookUrl, match=r"^url: the host's name "):
            await sender.check_url("https://shop.example/")


async def test_where_the_operator_lets_nothing_go_nothing_is_connected_to() -> None:
    forbidden = [ip_network("127.0.0.0/8"), ip_network("93.184.216.0/24")]
    async with open_receiver() as receiver:
        http = OutgoingHttp(ExchangeLimits(), NameLookups(Names(["93.184.216.34"])), forbidden=forbidden)
        sender = WebhookSender(http, allows_loopback=True)
        assert (await post(sender, receiver.url)).error == "the URL leads to 127.0.0.1, which this service may not reach"
        assert receiver.connections_count == 0
        with pytest.raises(errors.InvalidWebhookUrl, match="which this service may not reach"):
            await sender.check_url("https://shop.example/")


async def test_a_host_that_the_operator_named_is_posted_to_and_who_names_another_is_told_how() -> None:
    async with open_receiver() as receiver, open_http(Names(["127.0.0.1"])) as http:
        sender = WebhookSender(http, allows_loopback=False, named=parse_named_hosts("web"), hint="; a hint")
        url = f"http://web:{receiver.port}/"
        await sender.check_url(url)
        assert (await post(sender, url)).status_code == 200
        for other in ("http://db:3000/", "https://db/", "https://192.168.0.1/"):
            with pytest.raises(errors.InvalidWebhookUrl, match=r"; a hint$"):
                await sender.check_url(other)
