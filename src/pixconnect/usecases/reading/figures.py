"""Figures over time for people who look.

Hourly totals count the things of each kind and what became of them, and are exact over any span. There are none of reasons, of
how long the rail took and of how long webhooks took: those are of the newest thousand, and the answer says of how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Viewer
from pixconnect.domain.reading.figures import Figures, Series, SeriesKind, Step, spread
from pixconnect.store.reading import figures as figures_store
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.usecases.frame.context import Context

ADDING_S: Final = 0.3
"""How long the totals of holders are added up."""
HOLDERS_AT_ONCE: Final = 200
ENDPOINTS_MAX: Final = 1_000


async def read_figures(
    context: Context, viewer: Viewer, initial_at: datetime, final_at: datetime, step: Step
) -> Figures:
    """Figures of a holder or of all, as far as the viewer's scopes show them."""
    if initial_at > final_at:
        raise errors.BadRequest("instant: the time ends before it begins")
    first_hour = initial_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    pool, sees_webhooks = context.pool, viewer.may("webhook.read")
    sums, holder_ids, is_partial = await _add_up(context, viewer, first_hour, final_at, step)
    endpoint_ids: list[int] = []
    if sees_webhooks:
        async with pool.acquire() as connection:
            found = await endpoint_store.find_some(connection, viewer.holder_id, None, ENDPOINTS_MAX)
        endpoint_ids = [endpoint.id for endpoint in found]
        sums += await figures_store.read_webhook_sums(pool, holder_ids, endpoint_ids, first_hour, final_at, step)
    settling, reasons = [], []
    if viewer.may("transfer.read"):
        settling = await figures_store.read_settling(pool, viewer.holder_id, initial_at, final_at)
        reasons = await figures_store.read_reasons(pool, viewer.holder_id, initial_at, final_at)
    delivering = await figures_store.read_delivering(pool, endpoint_ids, initial_at, final_at) if endpoint_ids else []
    return Figures(
        series=_gather([row for row in sums if viewer.may_see(row["kind"])]),
        reasons=tuple(reasons),
        settling=spread(settling),
        delivering=spread(delivering),
        holders_count=len(holder_ids),
        is_partial=is_partial,
    )


async def _add_up(
    context: Context, viewer: Viewer, initial_at: datetime, final_at: datetime, step: Step
) -> tuple[list[Any], list[int], bool]:
    """Rows of the totals, of which holders, and whether there are more."""
    pool = context.pool
    if viewer.holder_id is not None:
        own = [viewer.holder_id]
        return await figures_store.read_sums(pool, own, initial_at, final_at, step), own, False
    began_s, sums, holder_ids = context.clock.monotonic_s(), list[Any](), list[int]()
    while some := await figures_store.next_holders(pool, holder_ids[-1] if holder_ids else 0, HOLDERS_AT_ONCE):
        sums += await figures_store.read_sums(pool, some, initial_at, final_at, step)
        holder_ids += some
        # Totals begin with the holder: no index has all of an hour together.
        if context.clock.monotonic_s() - began_s > ADDING_S:
            return sums, holder_ids, bool(await figures_store.next_holders(pool, holder_ids[-1], 1))
    return sums, holder_ids, False


def _gather(sums: Sequence[Any]) -> tuple[Series, ...]:
    counts: dict[tuple[SeriesKind, str], dict[datetime, int]] = {}
    for row in sums:
        points = counts.setdefault((row["kind"], row["status"]), {})
        points[row["began_at"]] = points.get(row["began_at"], 0) + row["count"]
    return tuple(
        Series(kind=kind, status=status, points=tuple(sorted(points.items())))
        for (kind, status), points in sorted(counts.items())
    )
