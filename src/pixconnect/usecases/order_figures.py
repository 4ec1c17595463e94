"""What is under way to other institutions, counted for who watches; one by one it is ``usecases.unresolved``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pixconnect.store import order_figures as order_figures_store
from pixconnect.store.order_figures import OrderFigures
from pixconnect.usecases.context import Context

COUNTED_MAX: Final = 100_000
"""More open orders than this are not told apart: whoever counts must not be a burden."""

_NOTHING: Final = OrderFigures(due_count=0, unsent_count=0, sent_count=0, silent_count=0, oldest_at=None)


async def read_open_orders(context: Context, now: datetime) -> Mapping[str, OrderFigures]:
    """Open transfers and refunds of all holders, by ``transfer`` and ``refund``; counting ends at ``COUNTED_MAX``."""
    found = await order_figures_store.read_all(context.pool, now, COUNTED_MAX)
    return {kind: found.get(kind, _NOTHING) for kind in ("transfer", "refund")}
