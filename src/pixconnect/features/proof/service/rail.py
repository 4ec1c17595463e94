"""Compares settlements here with the rail's own statement and position, beside the service."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from pixconnect.features.proof.rules import Finding
from pixconnect.features.proof.tables import rail as rail_store
from pixconnect.kernel.rules.rail import Rail, SettledItem
from pixconnect.platform.pool import Connection

ITEMS_AT_ONCE: Final = 100_000
APART: Final = timedelta(hours=1)
"""Maximum distance of both sides' dates of one item: reports come late, but not that late."""
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""A sandbox whose clock was moved back has items dated days ahead of it."""


async def compare_with_rail(
    connection: Connection,
    rail: Rail,
    since: datetime | None,
    rules: Collection[str],
    *,
    items_at_once: int = ITEMS_AT_ONCE,
) -> list[Finding]:
    """Return all violations of rules of ``features/proof/tables/rail.py``, by name; of items since an instant, or all."""
    first = await connection.fetchval("select min(created_at) from holder")
    if first is None:
        return []
    found = list[Finding]()
    if rail_store.ITEMS.name in rules:
        found += await _compare_items(
            connection, rail, max(first - APART, since) if since else first - APART, items_at_once
        )
    if rail_store.SUM.name in rules:
        found += await _compare_sums(connection, rail)
    return found


async def _compare_sums(connection: Connection, rail: Rail) -> list[Finding]:
    now = (await rail.position()).as_of
    # After a clock is put back, settlements are dated ahead of it: only the earlier list distinguishes them from those after
    # the position was taken.
    ahead = [item async for page in rail.statement(now, _LATEST) for item in page]
    position = await rail.position()
    recent = position.as_of - APART
    # Facts that we date within the span may be dated before it there.
    theirs = [item async for page in rail.statement(recent - APART, position.as_of) for item in page]
    theirs += [item for item in ahead if item.settled_at >= position.as_of]
    # Facts that either side alone has from ``recent`` on are no difference.
    cents = await rail_store.sum_held(connection, theirs, recent, position.as_of + APART)
    if cents == position.amount_cents:
        return []
    return [Finding(rule=rail_store.SUM.name, ids=("position",), expected=str(position.amount_cents), found=str(cents))]


async def _compare_items(connection: Connection, rail: Rail, begin: datetime, items_at_once: int) -> list[Finding]:
    until = (await rail.position()).as_of
    found, known = list[Finding](), list[SettledItem]()
    # Facts that we date within the span may be dated before or after it there, ahead of a clock that was put back too.
    async for page in rail.statement(begin - APART, _LATEST):
        known += page
        end = min(known[-1].settled_at - APART, until)
        if len(known) >= items_at_once and end > begin:
            found += await rail_store.compare_items(connection, known, begin, end)
            known = [item for item in known if item.settled_at >= end - APART]
            begin = end
    return found + await rail_store.compare_items(connection, known, begin, until)
