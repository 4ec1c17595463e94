"""What it costs a worker to find out what is due, whatever lies beside it.

``claim_few``, ``claim_many``, ``claim_many_pinned``: while 500 events a second are delivered, a claim as the worker makes it
(the deliveries due since the last one, and once a second those of the three seconds before as well) is made twenty times a
second and timed: ``claim_p50_ms``, ``claim_p99_ms``. ``sweep_``: the walk from the very beginning, which the worker makes once
a minute; here once in two seconds.

- *few*: with ten rows delivered before;
- *many*: with ten million of them;
- *pinned*: after an idle transaction has held the horizon for ten minutes, in which the same load went on, so that nothing that
  was delivered meanwhile could be vacuumed. ``p99_ratio`` is to *many* without.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from bench.figures import Row, percentile
from bench.harness.installation import Account, Installation, installed
from bench.load.events import writing
from bench.load.receivers import receiving
from pixconnect.domain.webhooks.delivery import DueCursor
from pixconnect.foundation.pool import Pool, open_pool
from pixconnect.store.webhooks import delivery as delivery_store

EVENTS_PER_SECOND = 500
FEW_COUNT = 10
_SLOTS = list(range(256))
_PAGE = 1024
_OVERLAP = timedelta(milliseconds=250)
_LATE = timedelta(seconds=3)
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_EVERY_S = 0.05
_LATE_EVERY = 20
_SWEEP_EVERY = 40
_WARM_S = 3.0

_FILLED_AT_ONCE = 1_000_000
_FILL = """
    insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, attempts_count, created_at,
        modified_at)
    select id, $3, $4, id, 'charge', id, id % 256, 'delivered', 1, now() - interval '1 hour', now()
    from generate_series($1::bigint, $2::bigint) as id
"""


class Claims:
    """Times claims on a service's database.

    Args:
        pool: With the settings that the service gives its own connections.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def time(self, seconds: float) -> Row:
        """Make claims for so long."""
        claims_ms: list[float] = []
        sweeps_ms: list[float] = []
        read_at = datetime.now(UTC)
        started_s, number = time.monotonic(), 0
        while time.monotonic() - started_s < seconds:
            number += 1
            now = datetime.now(UTC)
            since = now - _LATE if number % _LATE_EVERY == 0 else read_at - _OVERLAP
            claims_ms.append(await self._read(since, now))
            read_at = now
            if number % _SWEEP_EVERY == 0:
                sweeps_ms.append(await self._read(_BEGINNING, now))
            await asyncio.sleep(_EVERY_S)
        return {
            "claims": len(claims_ms),
            "claim_p50_ms": percentile(claims_ms, 0.5),
            "claim_p99_ms": percentile(claims_ms, 0.99),
            "sweep_p50_ms": percentile(sweeps_ms or [0.0], 0.5),
            "sweep_max_ms": max(sweeps_ms, default=0.0),
        }

    async def _read(self, since: datetime, until: datetime) -> float:
        started_s = time.perf_counter()
        await delivery_store.read_due(self._pool, DueCursor(due_at=since), until, _SLOTS, _PAGE, ())
        return 1000 * (time.perf_counter() - started_s)


def measure_claims(seconds: float, delivered_count: int, pinned_minutes: float) -> Iterator[Row]:
    """With few rows, with many, and with many under an old transaction."""
    with receiving() as receivers, installed(is_proved=False) as service:
        account = service.demonstration()
        endpoint_id = service.add_endpoint(account, f"{receivers.urls[0]}/quiet")

        without: Row = {}
        for name, count in (("claim_few", FEW_COUNT), ("claim_many", delivered_count)):
            asyncio.run(_fill(service, account, endpoint_id, count))
            without = asyncio.run(_measure(service, account, seconds))
            yield {"name": name, "seconds": seconds, "delivered_rows": count, **without}
        pinned = asyncio.run(_measure(service, account, seconds, pinned_s=60 * pinned_minutes))
        yield {
            "name": "claim_many_pinned",
            "seconds": seconds,
            "delivered_rows": delivered_count,
            "pinned_minutes": pinned_minutes,
            **pinned,
            "p99_ratio": pinned["claim_p99_ms"] / without["claim_p99_ms"],
        }


async def _fill(service: Installation, account: Account, endpoint_id: int, count: int) -> None:
    """Rows as delivered an hour ago, and tables as they are when vacuum has seen them."""
    connection = await service.connect()
    first_id = await connection.fetchval("select nextval('delivery_id')")
    end_id = first_id + count
    await connection.execute("select setval('delivery_id', $1)", end_id)
    for group_id in range(first_id, end_id, _FILLED_AT_ONCE):
        last_id = min(group_id + _FILLED_AT_ONCE, end_id) - 1
        await connection.execute(_FILL, group_id, last_id, account.holder_id, endpoint_id)
    await connection.execute("vacuum (freeze, analyze) delivery")
    await connection.execute("checkpoint")
    await connection.close()


async def _measure(service: Installation, account: Account, seconds: float, *, pinned_s: float = 0.0) -> Row:
    """Claims under load, after that has gone on for a while: under one open transaction, or under none."""
    events_count = round((_WARM_S + pinned_s + seconds) * EVENTS_PER_SECOND)
    async with writing(service) as writer, _claims(service) as claims:
        connection = await service.connect()
        if pinned_s:
            await connection.execute("begin isolation level repeatable read")
            await connection.execute("select from clock")  # from now on it has a snapshot
        load = asyncio.create_task(
            writer.write_steadily([account.holder_id], range(1, events_count + 1), EVENTS_PER_SECOND)
        )
        await asyncio.sleep(_WARM_S + pinned_s)
        row = await claims.time(seconds)
        await load
        await connection.close()
    await service.until_quiet()
    return row


@asynccontextmanager
async def _claims(service: Installation) -> AsyncIterator[Claims]:
    pool = await open_pool(
        service.running["database_url"],
        role="pixconnect_service",
        schema="pixconnect",
        connections_max=1,
        name="bench of claims",
    )
    try:
        yield Claims(pool)
    finally:
        await pool.close()
