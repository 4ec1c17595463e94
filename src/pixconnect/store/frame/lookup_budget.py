"""The table of what holders have left of their look-ups: one row for each that has ever spent one.

Levels are as of ``read_at``, in real time: what has come back since is added by whoever reads them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.foundation.pool import Pool
from pixconnect.store.frame.table import fetch_row


class KeptBudget(Struct, frozen=True, kw_only=True):
    tokens: float
    """Below zero where more was spent than there was."""
    read_at: datetime
    settled_until: datetime
    """Of settled payments, those that were made until then are among the tokens already; in service time."""


async def find(pool: Pool, holder_id: int) -> KeptBudget | None:
    row = await pool.fetchrow(
        "select tokens, read_at, settled_until from lookup_budget where holder_id = $1", holder_id
    )
    return None if row is None else KeptBudget(**row)


# What came back meanwhile is added first: a bucket that was full has lost nothing by waiting, and gained nothing.
_REFILLED: Final[LiteralString] = """
    least($4, kept.tokens + greatest(0, extract(epoch from $3 - kept.read_at)) * $5)
"""
_SPEND: Final[LiteralString] = f"""
    insert into lookup_budget as kept (holder_id, tokens, read_at, settled_until)
    values ($1, greatest(-$4::float8, $4 - $2::float8), $3, $6)
    on conflict (holder_id) do update set
        tokens = greatest(-$4, {_REFILLED} - $2), read_at = greatest(kept.read_at, $3)
    returning tokens, read_at, settled_until
"""


async def spend(
    pool: Pool, holder_id: int, cost: int, *, now: datetime, tokens_max: int, refill_per_s: float, made_at: datetime
) -> KeptBudget:
    """Take tokens of a holder's, down to as far below zero as there are at most.

    Args:
        made_at: Service time, where it is the first: only what is paid from then on gives tokens back.
    """
    row = await fetch_row(pool, _SPEND, holder_id, cost, now, tokens_max, refill_per_s, made_at)
    return KeptBudget(**row)


_PUT_BACK: Final[LiteralString] = f"""
    update lookup_budget as kept
    set tokens = least($4::float8, {_REFILLED} + $2::float8), read_at = greatest(kept.read_at, $3), settled_until = $6
    where holder_id = $1 and settled_until = $7
    returning tokens, read_at, settled_until
"""


async def put_back(
    pool: Pool,
    holder_id: int,
    tokens: int,
    *,
    now: datetime,
    tokens_max: int,
    refill_per_s: float,
    settled_from: datetime,
    settled_until: datetime,
) -> KeptBudget | None:
    """Put tokens back for the payments of a span of service time; ``None`` where another process has counted these."""
    row = await pool.fetchrow(_PUT_BACK, holder_id, tokens, now, tokens_max, refill_per_s, settled_until, settled_from)
    return None if row is None else KeptBudget(**row)
