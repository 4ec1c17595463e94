"""The feed of events: how soon an event can be read, and what a page costs, with few events before it and with many.

``feed_few`` and ``feed_many`` (behind as many events as ``--events`` says): while 500 events a second are written, a program
waits for them over HTTP (``wait_s=30``), one request after the other.

- ``p50_ms``, ``p99_ms``: from an event's commit to its arrival there.
- ``page_p50_ms``, ``page_p99_ms``: a page of 100 from a random position, over HTTP too, after the load.
- ``idle_look_ms``: a look of the sequencer that finds nothing.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from bench.figures import Row, percentile, spread_ms
from bench.harness.installation import Account, Installation, installed
from bench.load.events import writing
from pixconnect.api.contract.feed import write_feed_cursor
from pixconnect.domain.webhooks.feed import FeedCursor
from pixconnect.foundation.notifier import EventNotifier
from pixconnect.foundation.pool import Pool, open_pool

EVENTS_PER_SECOND = 500
_WARM_S = 2.0
_PAGES_COUNT = 300
_LOOKS_COUNT = 200
_FILLED_AT_ONCE = 1_000_000
_EVENTS_OF_ROW = 100
_FILL_EVENTS = """
    insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
    select id, $3, 'qrcode.pending', 'charge', id, id % 256,
        '{"id":1,"name":"qrcode.pending","payload":{},"create_timestamp":"2026-11-20T12:00:00.000000Z"}', now()
    from generate_series($1::bigint, $2::bigint) as id
"""
_FILL_FEED = """
    insert into event_feed (position, holder_id, event_ids)
    select nextval('event_feed_position'), $3,
        (select array_agg(id order by id) from generate_series(first_id, first_id + $4 - 1) as id)
    from generate_series($1::bigint, $2::bigint, $4::bigint) as first_id
"""
_SETTLE = """
    update event_feed_state set last_position = (select last_value from event_feed_position),
        settled_position = (select last_value from event_feed_position), settled_id = $1, asked_id = null
"""


class Reader(threading.Thread):
    """A program that waits for the feed of a holder, and notes when each event came."""

    def __init__(self, service: Installation, account: Account) -> None:
        super().__init__(daemon=True)
        self.came_at_s: dict[int, float] = {}
        self.is_over = False
        self._asking = _Asking(service, account)
        self._cursor = self._asking.ask("start=now")["cursor"]

    def run(self) -> None:
        while not self.is_over:
            answer = self._asking.ask(f"wait_s=30&page_size=1000&cursor={self._cursor}")
            now_s = time.monotonic()
            self.came_at_s.update((event["id"], now_s) for event in answer["events"])
            self._cursor = answer["cursor"]


class _Asking:
    def __init__(self, service: Installation, account: Account) -> None:
        address = urlsplit(service.base_url)
        self._connection = HTTPConnection(address.hostname or "", address.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {account.token}"}

    def ask(self, query: str) -> dict[str, Any]:
        self._connection.request("GET", f"/v1/webhook/feed?{query}", headers=self._headers)
        return json.loads(self._connection.getresponse().read())["data"]


def measure_feed(seconds: float, events_count: int) -> Iterator[Row]:
    """With few events, and with many."""
    with installed(is_proved=False) as service:
        account = service.demonstration()
        yield {"name": "feed_few", **_measure(service, account, seconds)}
        asyncio.run(_fill(service, account, events_count))
        yield {"name": "feed_many", "events": events_count, **_measure(service, account, seconds)}


def _measure(service: Installation, account: Account, seconds: float) -> Row:
    reader = Reader(service, account)
    reader.start()
    committed_at_s = asyncio.run(_write(service, account, seconds))
    deadline_s = time.monotonic() + 10
    while len(reader.came_at_s) < len(committed_at_s) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    reader.is_over = True
    first_s = min(committed_at_s.values()) + _WARM_S
    late_s = [
        reader.came_at_s[event_id] - at_s for event_id, at_s in committed_at_s.items() if at_s >= first_s
    ]  # an event that never came is an error here
    pages_ms = _read_pages(service, account)
    return {
        "seconds": seconds,
        **spread_ms(late_s),
        "page_p50_ms": percentile(pages_ms, 0.5),
        "page_p99_ms": percentile(pages_ms, 0.99),
        "idle_look_ms": asyncio.run(_time_looks(service)),
    }


async def _write(service: Installation, account: Account, seconds: float) -> dict[int, float]:
    """Write at a steady pace, as use cases do; answers when each event was committed."""
    async with writing(service) as writer:
        pool = await _open(service)
        notifier = EventNotifier(pool)
        started_s, written_count = time.monotonic(), 0
        while (passed_s := time.monotonic() - started_s) < _WARM_S + seconds:
            wanted = int(passed_s * EVENTS_PER_SECOND) - written_count
            if wanted:
                await writer.write(account.holder_id, range(written_count + 1, written_count + wanted + 1))
                notifier.notify()
                written_count += wanted
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)  # what the notifier still has to say
        await pool.close()
        return writer.committed_at_s


def _read_pages(service: Installation, account: Account) -> list[float]:
    asking = _Asking(service, account)
    first, last = asyncio.run(_read_bounds(service, account))
    pages_ms: list[float] = []
    for _ in range(_PAGES_COUNT):
        position = first + secrets.randbelow(last - first + 1)
        cursor = write_feed_cursor(FeedCursor(position=position, passed_count=0), account.holder_id)
        began_s = time.perf_counter()
        asking.ask(f"page_size=100&cursor={cursor}")
        pages_ms.append(1000 * (time.perf_counter() - began_s))
    return pages_ms


async def _read_bounds(service: Installation, account: Account) -> tuple[int, int]:
    connection = await service.connect()
    row = await connection.fetchrow(
        "select min(position) as first, max(position) as last from event_feed where holder_id = $1", account.holder_id
    )
    await connection.close()
    return (row["first"], row["last"]) if row is not None else (0, 0)


async def _time_looks(service: Installation) -> float:
    pool = await _open(service)
    began_s = time.perf_counter()
    for _ in range(_LOOKS_COUNT):
        await pool.execute("select give_event_positions(10000)")
    took_s = time.perf_counter() - began_s
    await pool.close()
    return 1000 * took_s / _LOOKS_COUNT


async def _open(service: Installation) -> Pool:
    return await open_pool(
        service.running["database_url"],
        role="pixconnect_service",
        schema="pixconnect",
        connections_max=1,
        name="bench of the feed",
    )


async def _fill(service: Installation, account: Account, count: int) -> None:
    """Events as written long ago with their positions, and tables as they are when vacuum has seen them."""
    connection = await service.connect()
    await connection.execute("set synchronous_commit = off; set maintenance_work_mem = '256MB'")
    first_id = await connection.fetchval("select nextval('write_group_id')")
    end_id = first_id + count
    await connection.execute("select setval('write_group_id', $1)", end_id)
    # Nobody may give positions to these before they have theirs.
    async with connection.transaction():
        await connection.execute("select from event_feed_state for update")
        # The rows look as if each had been written alone; the trigger counts them for lists that nobody reads here.
        await connection.execute("alter table event disable trigger tally_events")
        for group_id in range(first_id, end_id, _FILLED_AT_ONCE):
            last_id = min(group_id + _FILLED_AT_ONCE, end_id) - 1
            await connection.execute(_FILL_EVENTS, group_id, last_id, account.holder_id)
            await connection.execute(_FILL_FEED, group_id, last_id, account.holder_id, _EVENTS_OF_ROW)
        await connection.execute("alter table event enable trigger tally_events")
        await connection.execute(_SETTLE, end_id)
    await connection.execute("vacuum (freeze, analyze) event, event_feed")
    await connection.execute("checkpoint")
    await connection.close()
