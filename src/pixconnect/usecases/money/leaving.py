"""Finds what keeps accepted transfers and refunds from leaving now."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from pixconnect.domain.money.leaving import Standing, find_hold
from pixconnect.domain.money.limit import Interval, Spending, Spent
from pixconnect.domain.money.order import name_of
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import tally as tally_store
from pixconnect.store.money import infraction as infraction_store
from pixconnect.store.money import leaving as leaving_store

_Sum: TypeAlias = tuple[int, Interval, Interval | None]
"""A holder, a day, and the night in it."""


async def find_holds(connection: Connection | Pool, under_way: Collection[Transfer | Refund]) -> dict[str, str]:
    """The reasons why some of these may not leave now, by the names of their orders."""
    standings = await leaving_store.read_standings(connection, {ordered.holder_id for ordered in under_way})
    # A contested Pix has a block while it is undecided.
    suspected = {
        (ordered.transfer_id, ordered.holder_id)
        for ordered in under_way
        if isinstance(ordered, Refund) and standings[ordered.holder_id].blocks_count
    }
    contested = await infraction_store.find_contested(connection, sorted(suspected))
    holds = dict[str, str]()
    # Thousands of one holder may wait, and most of them count on one day.
    sums = dict[_Sum, Spent]()
    for ordered in under_way:
        standing = standings[ordered.holder_id]
        spending = await _read_spending(connection, ordered, standing, sums)
        is_contested = isinstance(ordered, Refund) and (ordered.transfer_id, ordered.holder_id) in contested
        if hold := find_hold(ordered, standing, spending, is_contested=is_contested):
            holds[name_of(ordered)] = hold
    return holds


async def _read_spending(
    connection: Connection | Pool, ordered: Transfer | Refund, standing: Standing, sums: dict[_Sum, Spent]
) -> Spending:
    """What else was sent on the day on which it was accepted, on which it counts."""
    spending = Spending(ordered.created_at)
    if isinstance(ordered, Transfer) and standing.limits.are_of_sums:
        wanted = ordered.holder_id, spending.day, spending.find_night(standing.limits)
        if wanted not in sums:
            sums[wanted] = await tally_store.read_spent(connection, *wanted)
        spent, own_cents = sums[wanted], ordered.amount_cents
        others = Spent(day_cents=spent.day_cents - own_cents, night_cents=spent.night_cents - own_cents)
        spending.start(ordered.holder_id, others)
    return spending
