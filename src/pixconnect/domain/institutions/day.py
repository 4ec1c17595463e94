"""How a day of an account closes: opening + the institution's items = closing, and each item and line of ours has its other.

::

    open ──► provisional ──► closed | closed_with_cases
      ▲                              │ a late item, a balance that changes
      └──────────────────────────────┘

*Open*: no statement speaks of the day, or its balances and items disagree. *Provisional*: they agree as far as is known, and
the day is not over, was not over when it was read, or no balance is told. *Closed with cases*: it agrees, and something is
unmatched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Literal

from msgspec import Struct, structs

from pixconnect.domain.frame.civil_time import SAO_PAULO
from pixconnect.domain.institutions.institution import InstitutionItem

DayState = Literal["open", "provisional", "closed", "closed_with_cases"]


class DayBalances(Struct, frozen=True, kw_only=True):
    """Of one day, as far as statements tell; and when the last one that speaks of all of it was read."""

    day: date
    opening_cents: int | None = None
    closing_cents: int | None = None
    read_at: datetime | None = None


class DaySums(Struct, frozen=True, kw_only=True):
    """What a day moved: ``gross - fees - returns + others = net``."""

    gross_cents: int
    """Received Pix."""
    fees_cents: int
    """Taken, less what was given back of them."""
    returns_cents: int
    """Of received Pix, to their payers."""
    others_cents: int
    """What else came in, less what else went out: sent Pix, wires, what people do there."""
    net_cents: int
    items_count: int


class DayCases(Struct, frozen=True, kw_only=True):
    """What is unmatched on a day."""

    items_count: int = 0
    """Of the institution's lines."""
    lines_count: int = 0
    """Of ours, which the institution's statement does not have."""
    changed_count: int = 0
    """Lines that were told twice, with two contents."""


class JudgedDay(Struct, frozen=True, kw_only=True):
    day: date
    state: DayState
    opening_cents: int | None
    closing_cents: int | None
    difference_cents: int | None
    """What the told closing balance is above the opening one and the items; ``None`` where there is nothing to compare."""
    sums: DaySums
    cases: DayCases


class ItemGroup(Struct, frozen=True, kw_only=True):
    """Items of one day that are alike in what their sum is called."""

    day: date
    direction: Literal["IN", "OUT"]
    kind: str
    is_return: bool
    """They are refunds of ours, whatever the institution calls them."""
    amount_cents: int
    items_count: int


def sum_groups(groups: Collection[ItemGroup]) -> DaySums:
    gross = fees = returns = others = net = 0
    for group in groups:
        signed_cents = group.amount_cents if group.direction == "IN" else -group.amount_cents
        net += signed_cents
        if group.direction == "OUT" and (group.kind == "refund" or group.is_return):
            returns += group.amount_cents
        elif group.kind == "fee":
            fees -= signed_cents
        elif group.direction == "IN" and group.kind == "pix":
            gross += group.amount_cents
        else:
            others += signed_cents
    return DaySums(
        gross_cents=gross,
        fees_cents=fees,
        returns_cents=returns,
        others_cents=others,
        net_cents=net,
        items_count=sum(group.items_count for group in groups),
    )


def sum_items(items: Collection[InstitutionItem], return_ids: Collection[str]) -> DaySums:
    """Add up the items of one day; ``return_ids`` are those that are joined to refunds of ours."""
    return sum_groups(
        [
            ItemGroup(
                day=item.day,
                direction=item.direction,
                kind=item.kind,
                is_return=item.item_id in return_ids,
                amount_cents=item.amount_cents,
                items_count=1,
            )
            for item in items
        ]
    )


def is_over(day: date, now: datetime) -> bool:
    return now.astimezone(SAO_PAULO).date() > day


def judge_days(
    told: Sequence[DayBalances], sums: Mapping[date, DaySums], cases: Mapping[date, DayCases], now: datetime
) -> list[JudgedDay]:
    """Judge the days of one account, in their order; days that no statement speaks of break the chain of balances."""
    days = _chain(sorted(told, key=lambda balances: balances.day), sums)
    empty = sum_items((), ())
    return [
        JudgedDay(
            day=balances.day,
            state=_find_state(balances, difference, cases.get(balances.day, DayCases()), now),
            opening_cents=balances.opening_cents,
            closing_cents=balances.closing_cents,
            difference_cents=difference,
            sums=sums.get(balances.day, empty),
            cases=cases.get(balances.day, DayCases()),
        )
        for balances, difference in days
    ]


def _chain(told: Sequence[DayBalances], sums: Mapping[date, DaySums]) -> list[tuple[DayBalances, int | None]]:
    """Carry balances from day to day, first onwards, then back to days before the first that is told."""
    chained: list[tuple[DayBalances, int | None]] = []
    before: DayBalances | None = None
    for balances in told:
        carried = before.closing_cents if before is not None and _follow(before, balances) else None
        opening = balances.opening_cents if carried is None else carried
        closing, differences = balances.closing_cents, list[int]()
        if opening is not None and balances.read_at is not None:
            derived = opening + _net_of(balances, sums)
            differences = [] if closing is None else [closing - derived]
            closing = derived if closing is None else closing
        if carried is not None and balances.opening_cents is not None:
            differences.append(balances.opening_cents - carried)
        before = structs.replace(balances, opening_cents=opening, closing_cents=closing)
        # The first that is not zero says most.
        chained.append((before, next(filter(None, differences), 0) if differences else None))
    after: DayBalances | None = None
    for index in range(len(chained) - 1, -1, -1):
        balances, difference = chained[index]
        closing, opening = balances.closing_cents, balances.opening_cents
        if closing is None and after is not None and _follow(balances, after):
            closing = after.opening_cents
        if opening is None and closing is not None and balances.read_at is not None:
            # Nothing is compared here: it is what the day must have begun with.
            opening = closing - _net_of(balances, sums)
        after = structs.replace(balances, opening_cents=opening, closing_cents=closing)
        chained[index] = (after, difference)
    return chained


def _follow(before: DayBalances, after: DayBalances) -> bool:
    return after.day - before.day == timedelta(days=1)


def _net_of(balances: DayBalances, sums: Mapping[date, DaySums]) -> int:
    return sums[balances.day].net_cents if balances.day in sums else 0


def _find_state(balances: DayBalances, difference: int | None, cases: DayCases, now: datetime) -> DayState:
    if balances.read_at is None or difference:
        return "open"
    is_final = is_over(balances.day, now) and is_over(balances.day, balances.read_at)
    if not is_final or balances.opening_cents is None or balances.closing_cents is None:
        return "provisional"
    return "closed_with_cases" if any((cases.items_count, cases.lines_count, cases.changed_count)) else "closed"
