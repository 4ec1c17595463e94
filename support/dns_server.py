"""A name server over UDP whose answers a test chooses, also different ones for successive queries."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import dns.rrset
from dns.message import from_wire, make_response
from dns.rcode import NXDOMAIN
from dns.rdatatype import AAAA, A


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
        for kind in (A, AAAA):
            self._turns[name, kind] = 0
        self.asked[name] = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        query = from_wire(data)
        question = query.question[0]
        name, kind = question.name.to_text(omit_final_dot=True).lower(), question.rdtype
        self.asked[name] += kind == A
        if name.endswith(self.hangs_below):
            return
        answer = make_response(query)
        if name not in self.answers:
            answer.set_rcode(NXDOMAIN)
        elif addresses := self._next_answer(name, kind):
            answer.answer.append(dns.rrset.from_text(question.name, 0, "IN", kind, *addresses))
        self._transport.sendto(answer.to_wire(want_shuffle=False), addr)

    def _next_answer(self, name: str, kind: int) -> list[str]:
        answers = self.answers[name]
        addresses = answers[min(self._turns[name, kind], len(answers) - 1)]
        self._turns[name, kind] += 1
        return [address for address in addresses if (":" in address) == (kind == AAAA)]


@asynccontextmanager
async def open_dns_server() -> AsyncIterator[DnsServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(DnsServer, local_addr=("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()
