"""Events as use cases write them, without the charges behind them, to measure delivery alone."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from bench.harness.installation import Installation
from pixconnect.kernel.tables.event import EVENTS
from pixconnect.kernel.tables.fact import Changes
from pixconnect.platform.notifier import Notifier
from pixconnect.platform.pool import Pool, open_pool
from support.records import make_event


class Writer:
    """Writes events, each with a delivery for every endpoint of its holder, and keeps the time of each commit."""

    def __init__(self, pool: Pool) -> None:
        self.committed_at_s: dict[int, float] = {}
        self._pool = pool
        self._notifier = Notifier(pool)

    async def write(self, holder_id: int, resource_ids: Sequence[int], due_in_s: float = 0.0) -> None:
        """Write an event for each of these resources in one transaction, and notify the workers."""
        changes = Changes()
        async with self._pool.acquire() as connection, connection.transaction():
            first_id = await connection.fetchval("select nextval('write_group_id')")
            due_at = datetime.now(UTC) + timedelta(seconds=due_in_s)
            for event_id, resource_id in enumerate(resource_ids, start=first_id):
                changes.put(EVENTS, make_event(event_id, holder_id, resource_id, "qrcode.pending", due_at))
            await changes.write_all(connection)
        now_s = time.monotonic()
        self.committed_at_s.update(dict.fromkeys(range(first_id, first_id + len(resource_ids)), now_s))
        self._notifier.notify()


@asynccontextmanager
async def writing(service: Installation) -> AsyncIterator[Writer]:
    """Write into a service's database with the rights of the service."""
    pool = await open_pool(
        service.running["database_url"], role="pixconnect_service", schema="pixconnect", connections_max=4,
        name="bench of webhooks",
    )  # fmt: skip
    try:
        yield Writer(pool)
    finally:
        await pool.close()
