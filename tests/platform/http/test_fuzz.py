"""Mutated exchanges: in every case an accepted request is answered once, in order, or the connection is closed.

Ten thousand exchanges here; as many as PIXCONNECT_PROVE_EXCHANGES under ``make prove``. A failure names the seed of its
connection.
"""

import asyncio
import os
import zlib
from random import Random
from typing import Any

from pixconnect.platform.http.connection import Connection
from pixconnect.platform.http.listening import BODY_HELD_MAX, SLICE_MAX
from pixconnect.platform.http.server import Server
from support.http_wire import Told, Wire, read_answers, turns

EXCHANGES = int(os.environ.get("PIXCONNECT_PROVE_EXCHANGES", "10000"))
SEED = int(os.environ.get("PIXCONNECT_PROVE_SEED", "1"))
NASTY = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b"\r\n\r\n", b"0\r\n\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: xchunked\r\n", b"Host: other\r\n", b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"GET /answer/9 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01", b"x: " + b"y" * 20_000, b"a:b\r\n" * 300, b"f" * 40, b"-1\r\n",
]  # fmt: skip


class Application:
    """Answers in several ways, and keeps each request."""

    def __init__(self) -> None:
        self.called_count = 0
        self.ended: list[int] = []  # the requests with a complete answer
        self.mixed_up: set[int] = set()  # those with trailers among their headers, which a mutation may cause

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        number = self.called_count
        self.called_count += 1
        if any(name.startswith(b"trailer-") for name, _ in scope["headers"]):
            self.mixed_up.add(number)
        manner = scope["raw_path"].split(b"/")[1]
        text = b"%b %b" % (scope["raw_path"], b"-" if manner == b"answer" else await _read(receive, manner))
        if manner == b"slow":
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        headers = [(b"x-number", b"%d" % number)]
        if scope["method"] == "HEAD":
            headers.append((b"x-head", b"1"))
        if manner != b"chunks":
            headers.append((b"content-length", b"%d" % len(text)))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if manner == b"chunks":
            await send({"type": "http.response.body", "body": text[:3], "more_body": True})
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": text[3:], "more_body": True})
            text = b""
        await send({"type": "http.response.body", "body": text})
        self.ended.append(number)


async def _read(receive: Any, manner: bytes) -> bytes:
    checksum, more = 0, True
    while more:
        if manner == b"slow":
            await asyncio.sleep(0)
        message = await receive()
        checksum, more = zlib.crc32(message["body"], checksum), message["more_body"]
    return b"%d" % checksum


class Asked:
    """A request as it should arrive, and its answer."""

    def __init__(self, random: Random, number: int) -> None:
        manner = random.choice([b"read", b"read", b"slow", b"answer", b"chunks"])
        path = b"/%b/%d" % (manner, number)
        self.is_head = random.random() < 0.05
        body = random.randbytes(random.choice([0, 0, 5, 60, 700, 3000])) if not self.is_head else b""
        if random.random() < 0.1:
            body = body.replace(b"\0", b"\r\n\r\n")
        lines = [b"%b %b HTTP/1.1" % (b"HEAD" if self.is_head else b"POST", path), b"Host: pix.example"]
        lines += [b"X-%d: %b" % (at, b"v" * random.randint(0, 50)) for at in range(random.randint(0, 5))]
        self.octets = _frame(random, lines, body)
        checksum = b"-" if manner == b"answer" else b"%d" % zlib.crc32(body)
        self.answer = b"%b %b" % (path, checksum)


def _frame(random: Random, lines: list[bytes], body: bytes) -> bytes:
    head = b"\r\n".join(lines) + b"\r\n"
    if random.random() < 0.5:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = bytearray()
    while body:
        size = random.randint(1, len(body))
        chunks += b"%x%b\r\n%b\r\n" % (size, random.choice([b"", b"", b";a=b"]), body[:size])
        body = body[size:]
    trailers = b"Trailer-A: b\r\n" * random.choice([0, 0, 1, 10])
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"


def mutate(random: Random, octets: bytes) -> tuple[bytes, int]:
    """One mutation, and the first octet that it affects."""
    at = random.randrange(len(octets))
    kind = random.randrange(6)
    if kind == 0:  # an octet is another
        return octets[:at] + random.randbytes(1) + octets[at + 1 :], at
    if kind == 1:  # some are missing
        return octets[:at] + octets[at + random.randint(1, 60) :], at
    if kind == 2:  # something comes in between
        return octets[:at] + random.choice(NASTY) + octets[at:], at
    if kind == 3:  # some come twice
        return octets[:at] + octets[max(0, at - random.randint(1, 200)) :], at
    if kind == 4:  # the end is missing
        return octets[:at], at
    return octets[:at] + random.randbytes(random.randint(1, 300)) + octets[at:], at


class Fuzzed:
    """One connection with several exchanges."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  what fails must fail again
        self.application = Application()
        self.server = Server(self.application)
        self.wire = Wire()

    async def run(self) -> int:
        """Send and compare; returns the number of exchanges."""
        self.wire.connection = connection = Connection(self.server.connections, self.application)
        connection.connection_made(self.wire)
        asked = [Asked(self.random, number) for number in range(self.random.randint(1, 8))]
        octets = b"".join(one.octets for one in asked)
        is_mutated = self.random.random() < 0.8
        sent, whole_until = mutate(self.random, octets) if is_mutated else (octets, len(octets))
        await self.wire.deliver(sent, self.random, self._look)
        await turns(lambda: self.wire.is_closed or (connection.keeps_us_waiting and not connection._waiting))
        self._compare(asked, whole_until)
        self.wire.close()
        await turns(lambda: not self.server.connections.tasks and not self.server.connections.all)
        assert self.server.connections.held_octets == self.server.connections.unsent_octets == 0
        return len(asked)

    def _look(self) -> None:
        connection = self.wire.connection
        assert len(connection._waiting) <= 1
        assert len(connection._rest) <= SLICE_MAX
        assert connection._head is None or len(connection._head.opening) <= SLICE_MAX
        for exchange in (connection._running, connection._read, *connection._waiting):
            assert exchange is None or len(exchange.body) <= BODY_HELD_MAX + SLICE_MAX

    def _compare(self, asked: list[Asked], whole_until: int) -> None:
        answers, is_whole = read_answers(bytes(self.wire.written))
        own = [answer for answer in answers if b"x-number" in answer.headers]
        numbers = [int(answer.headers[b"x-number"]) for answer in own]
        assert numbers == list(range(len(numbers))), "in their order, each once"
        assert len(self.application.ended) == len(numbers), "no answer that was handed over is lost"
        assert self.application.called_count - len(numbers) <= 1, "only the last, whose body never came, has none"
        assert is_whole
        assert all(answer.status == 200 for answer in own)
        assert all(answer.status in {400, 431} for answer in answers if answer not in own)
        assert own + [answer for answer in answers if answer not in own][:1] == answers, "a refusal is the last"
        self._compare_untouched(asked, own, whole_until)

    def _compare_untouched(self, asked: list[Asked], own: list[Told], whole_until: int) -> None:
        """Those before the mutation are answered normally."""
        position = 0
        for number, one in enumerate(asked):
            position += len(one.octets)
            if position > whole_until:
                return
            assert own[number].body == (b"" if one.is_head else one.answer)
            assert number not in self.application.mixed_up


async def test_mutated_exchanges_never_lose_double_or_mix_up_an_answer() -> None:
    seed, count = SEED * 1_000_000_000, 0
    while count < EXCHANGES:
        try:
            count += await Fuzzed(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        seed += 1


CODINGS = [
    b"", b"chunked", b"Chunked ", b"xchunked", b"chunkedx", b"gzip, chunked", b"chunked, gzip", b"identity",
    b"chunked, chunked", b"\tchunked", b"chunked;a=b", b"\"chunked\"", b",chunked", b"chunked,", b"\x0bchunked",
]  # fmt: skip
OFFERS = [
    b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Connection: keep-alive, Upgrade, X\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade\r\n", b"Upgrade: h2c\r\n",
]  # fmt: skip


async def test_whatever_coding_comes_with_an_offer_to_upgrade_is_answered_once() -> None:
    seed = SEED
    for method in (b"POST", b"GET", b"DELETE", b"HEAD"):
        for offer in OFFERS:
            for coding in CODINGS:
                for manner in (b"read", b"answer"):
                    fields = b"Transfer-Encoding: %b\r\n" % coding if coding else b""
                    head = b"%b /%b/0 HTTP/1.1\r\nHost: h\r\n%b%b\r\n" % (method, manner, offer, fields)
                    await _tell_once(
                        head + b"2\r\nab\r\n0\r\n\r\n", seed, has_known_coding=coding.strip(b" \t").lower() == b"chunked"
                    )
                    seed += 1


async def _tell_once(octets: bytes, seed: int, *, has_known_coding: bool) -> None:
    fuzzed = Fuzzed(seed)
    fuzzed.wire.connection = connection = Connection(fuzzed.server.connections, fuzzed.application)
    connection.connection_made(fuzzed.wire)
    await fuzzed.wire.deliver(octets, fuzzed.random, fuzzed._look)
    await turns(lambda: fuzzed.wire.is_closed or (connection.keeps_us_waiting and not connection._waiting))
    answers, is_whole = read_answers(bytes(fuzzed.wire.written))
    assert is_whole, octets
    if b"Transfer-Encoding" in octets:
        assert [answer.status for answer in answers] == [200 if has_known_coding else 400], octets
        assert fuzzed.application.called_count == has_known_coding, "what is refused was not begun"
    fuzzed.wire.close()
    await turns(lambda: not fuzzed.server.connections.tasks and not fuzzed.server.connections.all)
