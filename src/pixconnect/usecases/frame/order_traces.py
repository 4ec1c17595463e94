"""In which trace each order was asked for, as far as this process has looked it up; only where traces are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from pixconnect.foundation.bounded_cache import BoundedCache
from pixconnect.foundation.pool import Pool
from pixconnect.store.reading import trace as trace_store
from pixconnect.store.reading.trace import TracedOrder

_REMEMBERED_MAX: Final = 8192
LOOK_UP_TIMEOUT_S: Final = 1.0
"""A busy database answers what is due first."""

_log = structlog.get_logger(__name__)


class OrderTraces:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._by_name = BoundedCache[str, TracedOrder | None](_REMEMBERED_MAX)

    async def look_up(self, names: Sequence[str]) -> None:
        """Find those of orders, before they are marked; whatever goes wrong, the orders go on without them."""
        unknown = [name for name in names if name not in self._by_name]
        if not unknown:
            return
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                found = await trace_store.find_of_orders(self._pool, unknown)
        except Exception as error:  # noqa: BLE001  no trace is worth an order that waits
            _log.warning("orders go on without their traces", reason=type(error).__name__)
            return
        for name in unknown:
            self._by_name.keep(name, found.get(name))

    def recall(self, name: str) -> TracedOrder | None:
        """What is known of an order; ``None`` where it has no trace, or it is not known."""
        return self._by_name.get(name)
