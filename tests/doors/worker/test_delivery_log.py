"""One line for each attempt with any result, without anything that only its owner may see."""

import asyncio
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from pixconnect.features.webhooks.rules.delivery import Attempt, Conclusion, DueDelivery
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.platform import logging
from pixconnect.platform.adapters.system import SystemClock
from support import postgres
from support.webhooks import SECRET, Received, answering, open_receiver, open_webhook_service, start_worker

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def make_conclusion(number: int, error: str | None = None) -> Conclusion:
    """Delivered, or with an error not."""
    delivery = DueDelivery(
        id=number, holder_id=3, endpoint_id=7, event_id=number + 100, resource="charge", resource_id=1, slot=1,
        due_at=NOW, attempts_count=0, failures_count=0, body='{"id":1}',
    )  # fmt: skip
    attempt = Attempt(
        number=1, started_at=NOW, status_code=None if error else 200, duration_us=1234, response="what they said",
        error=error,
    )  # fmt: skip
    return Conclusion(
        delivery=delivery,
        attempt=attempt,
        status="pending" if error else "delivered",
        due_at=NOW + timedelta(seconds=5) if error else None,
        failures_count=1 if error else 0,
        is_gone=False,
        ended_at=NOW,
    )


async def test_every_attempt_has_a_line_that_says_what_came_of_it() -> None:
    stream = io.StringIO()
    log = AttemptLog(SystemClock(), is_on=True, stream=stream)
    log.append(make_conclusion(1))
    log.append(make_conclusion(2, error="the connection was refused"))
    assert stream.getvalue() == ""
    log.flush()
    well, badly = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert well.pop("timestamp").endswith("Z")
    assert well == {
        "level": "info", "event": "attempt", "delivery_id": 1, "endpoint_id": 7, "event_id": 101, "holder_id": 3,
        "number": 1, "status": "delivered", "status_code": 200, "duration_ms": 1.234,
    }  # fmt: skip
    assert (badly["status"], badly["error"], "status_code" in badly) == ("pending", "the connection was refused", False)


async def test_the_operator_is_told_why_where_the_owner_is_not() -> None:
    stream = io.StringIO()
    log = AttemptLog(SystemClock(), is_on=True, stream=stream)
    log.append(structs.replace(make_conclusion(1, error="no connection"), detail="the connection was refused"))
    log.flush()
    assert json.loads(stream.getvalue())["error"] == "the connection was refused"


async def test_lines_are_written_by_themselves_after_a_moment() -> None:
    stream = io.StringIO()
    log = AttemptLog(SystemClock(), is_on=True, stream=stream)
    log.INTERVAL_S = 0.01
    log.append(make_conclusion(1))
    await asyncio.sleep(0.1)
    assert len(stream.getvalue().splitlines()) == 1


async def test_nothing_is_written_where_it_is_not_wanted() -> None:
    stream = io.StringIO()
    log = AttemptLog(SystemClock(), is_on=False, stream=stream)
    log.append(make_conclusion(1))
    log.flush()
    assert stream.getvalue() == ""


@pytest.fixture
def terminal() -> Iterator[io.StringIO]:
    """The log as an operator reads it."""
    stream = io.StringIO()
    logging.show(stream)
    yield stream
    logging.hide()


async def test_whoever_watches_is_told_in_words_where_it_went_and_when_it_goes_again(terminal: io.StringIO) -> None:
    stream = io.StringIO()
    log = AttemptLog(SystemClock(), is_on=True, stream=stream)
    for conclusion in (make_conclusion(1), make_conclusion(2, error="the connection was refused")):
        body = '{"name":"transfer.in.confirmed","payload":{"amount":123456,"external_id":"order-7"}}'
        delivery = structs.replace(conclusion.delivery, body=body)
        log.append(structs.replace(conclusion, delivery=delivery), "http://127.0.0.1:8181/hooks?key=secret")
    log.flush()
    lines = [line[10:] for line in terminal.getvalue().splitlines()]
    assert lines == [
        "webhook transfer.in.confirmed  R$ 1.234,56  order-7  -> 127.0.0.1:8181  200  1 ms",
        "webhook transfer.in.confirmed  R$ 1.234,56  order-7  -> 127.0.0.1:8181  the connection was refused  1 ms  "
        "attempt 1; again in 5 s",
    ]
    assert stream.getvalue() == ""


async def test_what_only_the_owner_may_see_is_in_no_line(database: postgres.Addresses) -> None:
    async def say_too_much(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 maria@example.com\r\nContent-Length: 99999999999999999999999\r\n\r\nsaid-in-body")
        writer.close()

    stream = io.StringIO()
    async with (
        open_webhook_service(database) as service,
        open_receiver(say_too_much) as first,
        open_receiver(answering(500, b"said-in-body")) as second,
    ):
        log = AttemptLog(service.context.clock, is_on=True, stream=stream)
        for url in (first.url, second.url):
            await service.add_endpoint(f"{url}/in-the-path?token=in-the-query")
        worker = start_worker(service, attempt_log=log)
        await service.announce([1])
        await first.wait_for(1)
        await second.wait_for(1)
        await worker.stop()
        (row,) = await service.fetch("select body from event")
    text = stream.getvalue()
    assert len(text.splitlines()) == 2
    for kept in (SECRET, "in-the-path", "in-the-query", "said-in-body", "maria@", row["body"], "order-1"):
        assert kept not in text
