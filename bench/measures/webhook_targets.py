"""Whether a webhook can be made to connect to where it must not go.

``forbidden_connects``: every forbidden address of ``tests/vectors/ssrf.json`` is posted to as in live mode: written into the
URL in every spelling, behind a name, behind a name with a public address too, and behind a name that was public when it was
registered (``tries``, by kind). Redirects lead there too, from a receiver that may be reached. Counted are calls of ``connect``
to anywhere but that receiver (``connects``: 0), by an audit hook of Python's that hears of every socket of this process and
lets none of them through; ``seen_where_allowed`` shows that it hears: those to the receiver.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from bench.figures import Row
from pixconnect.adapters.outgoing_http import WebhookSender
from pixconnect.domain.frame import errors
from support.addresses import VECTORS, spellings
from support.webhooks import answering, open_http, open_receiver

NAME = "shop.example"
PUBLIC = "93.184.216.34"


def measure_targets() -> Iterator[Row]:
    """Try all of them."""
    yield asyncio.run(_try_all())


async def _try_all() -> Row:
    names = _Names()
    with _watching_connects() as connects:
        async with open_http(names.look_up) as http:
            tries = await _try_addresses(WebhookSender(http, allows_loopback=False), names)
        async with open_receiver() as receiver, open_http(names.look_up) as http:
            connects.allowed_port = receiver.port
            sender = WebhookSender(http, allows_loopback=True)
            for address in VECTORS["must_deny"]:
                receiver.behave = answering(302, Location=f"http://{_in_url(address)}/")
                exchange = await sender.post(receiver.url, [], b"{}")
                assert exchange.status_code == 302, exchange
                tries["redirect"] += 1
            seen_count = connects.pop(("127.0.0.1", receiver.port), 0)
    assert seen_count > 0
    return {
        "name": "forbidden_connects", "connects": connects.total(), "tries": tries.total(),
        "tries_by_kind": dict(tries), "seen_where_allowed": seen_count,
    }  # fmt: skip


async def _try_addresses(sender: WebhookSender, names: "_Names") -> Counter[str]:
    tries: Counter[str] = Counter()
    for host in VECTORS["legacy_host_spellings_must_deny"]:
        names.answers = [["127.0.0.1"]]
        tries["written"] += await _try(sender, host)
    for address in VECTORS["must_deny"]:
        for host in spellings(address):
            names.answers = [[address]]
            tries["written"] += await _try(sender, host)
        for kind, answers in (
            ("name", [[address]]),
            ("name_with_public", [[PUBLIC, address]]),
            ("name_that_moves", [[PUBLIC], [address]]),
        ):
            names.answers = answers
            tries[kind] += await _try(sender, NAME)
    return tries


async def _try(sender: WebhookSender, host: str) -> int:
    """Register it and, whatever came of that, post to it; how many tries that were."""
    urls = [f"{scheme}://{host}/hook" for scheme in ("https", "http")]
    for url in urls:
        with suppress(errors.InvalidWebhookUrl):
            await sender.check_url(url)
        exchange = await sender.post(url, [], b"{}")
        assert exchange.status_code is None, exchange
    return len(urls)


class _Names:
    """Answers look-ups as told: the next answer each time, and the last one from then on.

    Attributes:
        answers: What is left to answer.
    """

    def __init__(self) -> None:
        self.answers: list[list[str]] = []

    async def look_up(self, _host: str, _port: int) -> Sequence[str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Connects(Counter[object]):
    """Addresses to which this process wanted to connect.

    Attributes:
        allowed_port: On 127.0.0.1, and nowhere else.
    """

    allowed_port: int | None = None

    def note(self, address: object) -> None:
        """Note one, and let it through only where it is allowed."""
        self[address] += 1
        if address != ("127.0.0.1", self.allowed_port):
            raise PermissionError("nothing of this may leave the machine")


_hear_connect: Callable[[object], None] | None = None


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and _hear_connect is not None:
        _hear_connect(arguments[1])


@contextmanager
def _watching_connects() -> Iterator[_Connects]:
    global _hear_connect  # noqa: PLW0603  an audit hook can be neither given anything nor removed
    connects = _Connects()
    sys.addaudithook(_audit)
    _hear_connect = connects.note
    try:
        yield connects
    finally:
        _hear_connect = None


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
