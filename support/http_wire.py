"""The other end of a connection without a socket, and an independent reader of answers, for millions of exchanges."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from pixconnect.platform.http.connection import Connection
from pixconnect.platform.http.listening import SLICE_MAX


class Wire(asyncio.Transport):
    """Keeps what the server writes; sent octets arrive in pieces, while the server reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self.is_paused = False
        self.connection: Connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 4711) if name == "peername" else default

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: Any) -> None:
        assert not self.is_closed
        self.written += data

    def write_eof(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.connection.loop.call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        self.close()

    async def deliver(self, octets: bytes, random: Random, look: Callable[[], None]) -> None:
        position = 0
        size_max = random.choice([1, 7, 100, 2000, SLICE_MAX])
        if len(octets) > 200 * size_max:
            size_max = SLICE_MAX
        while position < len(octets) and not self.is_closed:
            await turns(lambda: not self.is_paused or self.is_closed)
            if self.is_closed:
                return
            part = octets[position : position + random.randint(1, size_max)]
            position += len(part)
            buffer = self.connection.get_buffer(-1)
            buffer[: len(part)] = part
            self.connection.buffer_updated(len(part))
            look()


async def turns(holds: Callable[[], bool]) -> None:
    """Run the loop until this holds. That takes turns of the loop and no time."""
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it hangs")


class Told:
    def __init__(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


def read_answers(octets: bytes) -> tuple[list[Told], bool]:
    """Parse all answers, and whether the last is complete. Anything else is an error."""
    answers: list[Told] = []
    while octets:
        head, end, rest = octets.partition(b"\r\n\r\n")
        if not end:
            return answers, False
        first, *lines = head.split(b"\r\n")
        version, status, _ = first.split(b" ", 2)
        assert version == b"HTTP/1.1", first
        if status == b"100":
            octets = rest
            continue
        headers = dict(line.split(b": ", 1) for line in lines)
        body = b""
        if b"x-head" in headers:
            pass
        elif headers.get(b"transfer-encoding") == b"chunked":
            while True:
                size, end, rest = rest.partition(b"\r\n")
                length = int(size or b"0", 16)
                if not end or len(rest) < length + 2:
                    return answers, False
                body, rest = body + rest[:length], rest[length + 2 :]
                if not length:
                    break
        else:
            length = int(headers[b"content-length"])
            if len(rest) < length:
                return answers, False
            body, rest = rest[:length], rest[length:]
        answers.append(Told(int(status), headers, body))
        octets = rest
    return answers, True
