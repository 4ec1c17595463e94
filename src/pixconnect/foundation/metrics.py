"""What a process tells of itself to who watches it: the text format of Prometheus, on a loopback port of its own.

Nothing is made for metrics on the hot road: rooms count in plain attributes, as they would for their own use, and are read when
somebody asks. The port is not the API's, so that watching needs no token and callers cannot watch.
"""

from __future__ import annotations

import asyncio
import socket
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

import structlog
from msgspec import Struct

from pixconnect.foundation.asgi import ASGIApp, Receive, Scope, Send
from pixconnect.foundation.http_server import make_server

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PATH: Final = "/metrics"

_CONNECTIONS_MAX = 64
_GRACE_S = 0.5
_READ_TIMEOUT_S = 5.0
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

_log = structlog.get_logger(__name__)


class Family(Struct, frozen=True, kw_only=True):
    """What is measured under one name.

    Attributes:
        name: With its unit; a counter's ends in ``_total``.
        kind: A counter only rises, from 0 at the process's start; a gauge is as it is.
        meaning: One sentence.
        labels: By which its values are told apart.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


class Histogram:
    """How often values came up to each bound.

    Args:
        bounds: Rising.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Take a value in, as often as it came."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


Value = float | Histogram


class Measured(Struct, frozen=True, kw_only=True):
    """A family, read.

    Attributes:
        family: Which.
        values: By the values of its labels, in their order.
    """

    family: Family
    values: Mapping[tuple[str, ...], Value]


Read = Callable[[], Awaitable[Sequence[Measured]]]


def measure(family: Family, value: Value) -> Measured:
    """A family without labels, read."""
    return Measured(family=family, values={(): value})


def write_text(measured: Iterable[Measured]) -> str:
    """The text format of Prometheus, version 0.0.4."""
    lines: list[str] = []
    for one in measured:
        family = one.family
        lines.append(f"# HELP {family.name} {family.meaning}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for words, value in sorted(one.values.items(), key=lambda item: item[0]):
            labels = dict(zip(family.labels, words, strict=True))
            if isinstance(value, Histogram):
                lines += _write_histogram(family.name, labels, value)
            else:
                lines.append(f"{family.name}{_write_labels(labels)} {value}")
    return "\n".join(lines) + "\n"


def _write_histogram(name: str, labels: Mapping[str, str], histogram: Histogram) -> Iterable[str]:
    count = 0
    for bound, within in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        count += within
        yield f"{name}_bucket{_write_labels({**labels, 'le': str(bound)})} {count}"
    yield f"{name}_sum{_write_labels(labels)} {histogram.total}"
    yield f"{name}_count{_write_labels(labels)} {count}"


def _write_labels(labels: Mapping[str, str]) -> str:
    written = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{written}}}" if written else ""


@asynccontextmanager
async def tell_metrics(listener: socket.socket | None, read: Read) -> AsyncGenerator[None]:
    """Answer who watches, meanwhile.

    Args:
        listener: Listens already; ``None`` tells nobody.
        read: Measures now.
    """
    if listener is None:
        yield
        return

    server = make_server(_make_application(read), connections_max=_CONNECTIONS_MAX, grace_s=_GRACE_S)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def _make_application(read: Read) -> ASGIApp:
    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        status, text = await _answer(scope, read)
        body = text.encode()
        headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


async def _answer(scope: Scope, read: Read) -> tuple[int, str]:
    if scope["method"] not in {"GET", "HEAD"} or scope["raw_path"] != PATH.encode():
        return 404, f"ask for GET {PATH}\n"
    try:
        async with asyncio.timeout(_READ_TIMEOUT_S):
            return 200, write_text(await read())
    except Exception as error:  # noqa: BLE001  who watches must hear that it failed
        _log.warning("metrics cannot be read", error=type(error).__name__)
        return 500, "metrics cannot be read\n"
