"""A name server over UDP whose answers a test chooses, also different ones for successive queries."""

import asyncio
import ipaddress
import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

_A, _AAAA = 1, 28
_HEADER = struct.Struct("!6H")
_RESPONSE, _NO_SUCH_NAME = 0x8180, 0x8183


class DnsServer(asyncio.DatagramProtocol):
    """Answers queries for A and AAAA, with a TTL of 0.

    Attributes:
        answers: By name, the addresses of its first query, its second, and so on; the last ones are repeated. Other
            names do not exist.
        hangs_below: Queries for names with this ending are never answered.
        asked: The number of A queries by name.
        port: Its UDP port.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Sequence[Sequence[str]]] = {}
        self.hangs_below = "\0"
        self.asked: Counter[str] = Counter()
        self.port = 0
        self._turns: Counter[tuple[str, int]] = Counter()
        self._transport: asyncio.DatagramTransport | None = None

    def say(self, name: str, *answers: Sequence[str]) -> None:
        self.answers[name] = answers
        for kind in (_A, _AAAA):
            self._turns[name, kind] = 0
        self.asked[name] = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        query_id = _HEADER.unpack_from(data)[0]
        name, end = _read_name(data, _HEADER.size)
        (kind,) = struct.unpack_from("!H", data, end)
        question = data[_HEADER.size : end + 4]
        self.asked[name] += kind == _A
        if name.endswith(self.hangs_below):
            return
        if name not in self.answers:
            head = _HEADER.pack(query_id, _NO_SUCH_NAME, 1, 0, 0, 0)
            self._transport.sendto(head + question, addr)
            return
        records = [_record(kind, address) for address in self._next_answer(name, kind)]
        head = _HEADER.pack(query_id, _RESPONSE, 1, len(records), 0, 0)
        self._transport.sendto(head + question + b"".join(records), addr)

    def _next_answer(self, name: str, kind: int) -> list[bytes]:
        answers = self.answers[name]
        addresses = answers[min(self._turns[name, kind], len(answers) - 1)]
        self._turns[name, kind] += 1
        packed = [ipaddress.ip_address(address).packed for address in addresses]
        return [one for one in packed if len(one) == (4 if kind == _A else 16)]


class UdpLookup:
    """Queries a name server on loopback, as the system's resolver queries the configured one."""

    def __init__(self, server: DnsServer) -> None:
        self._server = server

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        found = [address for kind in (_A, _AAAA) for address in await self._ask(host, kind)]
        if not found:
            raise OSError(-2, "Name or service not known")
        return found

    async def _ask(self, host: str, kind: int) -> list[str]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()

        class Asking(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: object) -> None:
                answer.set_result(data)

        transport, _ = await loop.create_datagram_endpoint(Asking, remote_addr=("127.0.0.1", self._server.port))
        try:
            labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
            transport.sendto(_HEADER.pack(7, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1))
            return _read_addresses(await asyncio.wait_for(answer, 30), kind)
        finally:
            transport.close()


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    labels: list[str] = []
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode().lower())
        at += 1 + length
    return ".".join(labels), at + 1


def _record(kind: int, packed: bytes) -> bytes:
    """An answer for the name in the question, which begins at octet 12."""
    return struct.pack("!HHHIH", 0xC000 | _HEADER.size, kind, 1, 0, len(packed)) + packed


def _read_addresses(data: bytes, kind: int) -> list[str]:
    count = _HEADER.unpack_from(data)[3]
    _, at = _read_name(data, _HEADER.size)
    at += 4
    size = 4 if kind == _A else 16
    places = [at + number * (12 + size) + 12 for number in range(count)]
    return [str(ipaddress.ip_address(data[place : place + size])) for place in places]


@asynccontextmanager
async def open_dns_server(port: int = 0) -> AsyncIterator[DnsServer]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        DnsServer, local_addr=("127.0.0.1", port)
    )
    try:
        yield server
    finally:
        transport.close()
