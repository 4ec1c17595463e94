"""Figures over time: totals and durations; a holder's balance, and the day's incoming and outgoing money."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

Step = Literal["hour", "day"]
SeriesKind = Literal["charge", "transfer", "refund", "spent", "event", "delivery"]


class Series(Struct, frozen=True, kw_only=True):
    """Counts per hour or day of creation, by present state; for money spent, cents."""

    kind: SeriesKind
    status: str
    points: tuple[tuple[datetime, int], ...]  # each step's begin and count, oldest first; empty steps are left out


class Reason(Struct, frozen=True, kw_only=True):
    kind: Literal["transfer", "refund"]
    direction: Literal["IN", "OUT"]
    code: str
    count: int


class Spread(Struct, frozen=True, kw_only=True):
    """Durations of the newest: there are no totals of these."""

    count: int
    p50_us: int
    p99_us: int
    buckets: tuple[tuple[int, int], ...]
    """The number with up to so many microseconds, and more than the bucket before."""


class Figures(Struct, frozen=True, kw_only=True):
    series: tuple[Series, ...]
    reasons: tuple[Reason, ...]  # the failure reasons of the newest; most frequent first
    settling: Spread | None  # for transfers over the rail, from acceptance to the rail's answer; ``None`` without any
    delivering: Spread | None  # for webhooks, from the event to the answer that accepted it
    holders_count: int  # the number of holders included
    is_partial: bool  # there are more holders than could be added up in time


_MS: Final = 1_000
_BOUNDS_US: Final = tuple(digit * 10**power * _MS for power in range(7) for digit in (1, 2, 5))
"""1, 2, 5, 10 ms and so on, up to 5000 s."""


def spread(durations_us: Sequence[int]) -> Spread | None:
    """Sum up durations; ``None`` for none."""
    if not durations_us:
        return None
    ordered = sorted(durations_us)

    def percentile(share: float) -> int:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    bounds = (*_BOUNDS_US, max(ordered[-1], _BOUNDS_US[-1]))
    counts = dict.fromkeys(bounds, 0)
    for duration_us in ordered:
        counts[next(bound for bound in bounds if duration_us <= bound)] += 1
    filled = [bound for bound in counts if counts[bound]]
    # From the first non-empty bucket to the last: empty ones between them stay.
    shown = [bound for bound in counts if filled[0] <= bound <= filled[-1]]
    return Spread(
        count=len(ordered),
        p50_us=percentile(0.5),
        p99_us=percentile(0.99),
        buckets=tuple((bound, counts[bound]) for bound in shown),
    )


class HolderMoney(Struct, frozen=True, kw_only=True):
    holder_id: int
    available_cents: int
    reserved_cents: int
    blocked_cents: int
    in_cents: int  # payments received since midnight in Sao Paulo
    in_yesterday_cents: int
    other_in_cents: int  # what else came in, as deposits and own transfers that were returned
    out_cents: int  # what went out without refunds
    out_yesterday_cents: int
    back_cents: int  # received payments that were refunded
    back_yesterday_cents: int
    # Whether today had more lines than are summed: the sums are of the newest alone, and yesterday's are zero.
    is_cut: bool
    is_yesterday_cut: bool
