"""The text format, read by a library that we did not write, and the port that it is told on."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pixconnect.foundation.metrics import CONTENT_TYPE, Family, Histogram, Measured, measure, tell_metrics, write_text

COUNTED = Family(name="things_total", kind="counter", meaning="Things.", labels=("kind", "what"))
HELD = Family(name="things_held", kind="gauge", meaning="Things that are held.")
TOOK = Family(name="things_took_seconds", kind="histogram", meaning="How long.", labels=("kind",))


def histogram(*values: float) -> Histogram:
    made = Histogram((0.1, 1.0))
    for value in values:
        made.observe(value)
    return made


def read_text(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_written_is_what_is_read() -> None:
    odd = 'a "quoted"\\ word\nand another'
    text = write_text([
        Measured(family=COUNTED, values={("a", odd): 3, ("", "b"): 2**60}),
        measure(HELD, 0.25),
        Measured(family=TOOK, values={("x",): histogram(0.05, 0.1, 0.2, 5.0)}),
        Measured(family=Family(name="absent", kind="gauge", meaning="Not there.", labels=("a",)), values={}),
    ])  # fmt: skip
    assert read_text(text) == {
        ("things_total", (("kind", "a"), ("what", odd))): 3,
        ("things_total", (("kind", ""), ("what", "b"))): 2**60,
        ("things_held", ()): 0.25,
        ("things_took_seconds_bucket", (("kind", "x"), ("le", "0.1"))): 2,
        ("things_took_seconds_bucket", (("kind", "x"), ("le", "1.0"))): 3,
        ("things_took_seconds_bucket", (("kind", "x"), ("le", "+Inf"))): 4,
        ("things_took_seconds_sum", (("kind", "x"),)): pytest.approx(5.35),
        ("things_took_seconds_count", (("kind", "x"),)): 4,
    }
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds == {"things": "counter", "things_held": "gauge", "things_took_seconds": "histogram", "absent": "gauge"}


@asynccontextmanager
async def telling(*measured: Measured, failure: Exception | None = None) -> AsyncIterator[str]:
    async def read() -> Sequence[Measured]:
        if failure is not None:
            raise failure
        return measured

    listener = socket.create_server(("127.0.0.1", 0))
    async with tell_metrics(listener, read):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_who_watches_is_told_and_anything_else_is_not_found() -> None:
    async with telling(measure(HELD, 7)) as url, httpx.AsyncClient(trust_env=False) as http:
        told = await http.get(f"{url}/metrics?name=all")
        assert (told.status_code, told.headers["content-type"]) == (200, CONTENT_TYPE)
        assert read_text(told.text) == {("things_held", ()): 7}
        for method, path in (("GET", "/"), ("GET", "/metrics/2"), ("POST", "/metrics"), ("GET", "/v1/connect/health")):
            assert (await http.request(method, url + path)).status_code == 404


async def test_a_failure_is_said_and_the_next_one_who_asks_is_answered() -> None:
    async with telling(failure=ValueError("a secret")) as url, httpx.AsyncClient(trust_env=False) as http:
        for _ in range(2):
            told = await http.get(f"{url}/metrics")
            assert (told.status_code, told.text) == (500, "metrics cannot be read\n")


async def test_nonsense_is_hung_up_on() -> None:
    async with telling(measure(HELD, 7)) as url:
        for octets in (b"a" * 100_000, b"\0\r\n\r\n", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(octets)
            writer.write_eof()
            try:
                said = await asyncio.wait_for(reader.read(), 30)
            except ConnectionResetError:
                said = b""
            assert said[:12] in {b"", b"HTTP/1.1 400"}
            writer.transport.abort()


async def test_without_a_port_nobody_is_told() -> None:
    async def read() -> Sequence[Measured]:
        raise AssertionError

    async with tell_metrics(None, read):
        pass
