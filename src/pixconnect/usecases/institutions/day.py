"""Days of accounts at institutions: judged from what is recorded, listed, and one of them line by line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions import day as day_rules
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.day import DayBalances, DayCases, ItemGroup, JudgedDay
from pixconnect.domain.institutions.joining import BookLine
from pixconnect.domain.institutions.recorded_item import RecordedItem
from pixconnect.domain.institutions.statement_file import to_day
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import day as day_store
from pixconnect.store.institutions import item as item_store
from pixconnect.store.institutions import line as line_store
from pixconnect.store.institutions.day import OpenDays, RecordedDay
from pixconnect.usecases.frame.context import HasClock, HasPool

LOOKED_BACK: Final = timedelta(days=400)
SHOWN_DAYS: Final = 7


class DayContext(HasPool, HasClock, Protocol): ...


class ShownDay(Struct, frozen=True, kw_only=True):
    judged: JudgedDay
    read_at: datetime | None = None
    closed_at: datetime | None = None
    reopened_at: datetime | None = None


class AccountDays(Struct, frozen=True, kw_only=True):
    account: InstitutionAccount
    days: Sequence[ShownDay]


class DayLines(Struct, frozen=True, kw_only=True):
    """All that a day has: the institution's lines, and those of ours that are not among them."""

    shown: ShownDay
    items: Sequence[RecordedItem]
    lines_alone: Sequence[BookLine]


async def judge(context: DayContext, account: InstitutionAccount, touched_on: date) -> None:
    """Judge the days since one that was touched, or is not closed."""
    now = context.clock.now()
    async with context.pool.acquire() as connection:
        since = to_day(now) - LOOKED_BACK
        open_days = await day_store.find_open(connection, account.id, since, touched_on)
        judged = [shown.judged for shown in await _judge_span(connection, account, open_days, to_day(now), now)]
        await day_store.write_states(connection, account.id, [(day.day, day.state) for day in judged], now)


async def list_days(
    context: DayContext, account: InstitutionAccount, last_on: date | None = None, count: int = SHOWN_DAYS
) -> list[ShownDay]:
    """The last days, the oldest first; of a day that no statement speaks of there is nothing but its state."""
    now = context.clock.now()
    last_on = to_day(now) if last_on is None else last_on
    first_on = last_on - timedelta(days=count - 1)
    async with context.pool.acquire() as connection:
        began = await day_store.find_open(connection, account.id, first_on - LOOKED_BACK, first_on)
        judged = {shown.judged.day: shown for shown in await _judge_span(connection, account, began, last_on, now)}
    days = [first_on + timedelta(days=number) for number in range(count)]
    unknown = {day: ShownDay(judged=one) for day, one in zip(days, _judge_unknown(days, now), strict=True)}
    return [judged.get(day, unknown[day]) for day in days]


async def list_accounts_days(context: DayContext) -> list[AccountDays]:
    """The last days of each account; there are few accounts."""
    async with context.pool.acquire() as connection:
        accounts = await account_store.list_all(connection)
    return [AccountDays(account=account, days=await list_days(context, account)) for account in accounts]


async def read_named_account(context: DayContext, name: str) -> InstitutionAccount:
    async with context.pool.acquire() as connection:
        account = await account_store.find_named(connection, name)
    if account is None:
        raise errors.NotFound(f"name: there is no account {name}")
    return account


async def read_day(context: DayContext, account: InstitutionAccount, day: date) -> DayLines:
    (shown,) = await list_days(context, account, day, 1)
    async with context.pool.acquire() as connection:
        items = await item_store.list_days(connection, account.id, day, day)
        lines = await line_store.list_unmatched(connection, account.id, (day, day))
    return DayLines(shown=shown, items=items, lines_alone=lines)


def _judge_unknown(days: Sequence[date], now: datetime) -> list[JudgedDay]:
    return day_rules.judge_days([DayBalances(day=day) for day in days], {}, {}, now)


async def _judge_span(
    connection: Connection, account: InstitutionAccount, open_days: OpenDays, last_on: date, now: datetime
) -> list[ShownDay]:
    first_on = open_days.carried_from
    recorded = await day_store.list_days(connection, account.id, first_on, last_on)
    groups = defaultdict[date, list[ItemGroup]](list)
    for group in await item_store.sum_days(connection, account.id, first_on, last_on):
        groups[group.day].append(group)
    sums = {day: day_rules.sum_groups(of_day) for day, of_day in groups.items()}
    cases = await item_store.count_cases(connection, account.id, first_on, last_on)
    # Before the books begin nothing of ours is missing.
    begins_on = max(first_on, to_day(account.opened_at))
    alone = await line_store.list_unmatched(connection, account.id, (begins_on, last_on)) if recorded else []
    for day, count in Counter(line.day for line in alone).items():
        cases[day] = structs.replace(cases.get(day, DayCases()), lines_count=count)
    told = [await _read_balances(connection, account, day) for day in recorded]
    judged = {one.day: one for one in day_rules.judge_days(told, sums, cases, now)}
    return [
        ShownDay(
            # What proved it may be older than what is looked at here.
            judged=structs.replace(judged[day.day], state=day.state)
            if day.day < open_days.judged_from
            else judged[day.day],
            read_at=day.read_at,
            closed_at=day.closed_at,
            reopened_at=day.reopened_at,
        )
        for day in recorded
    ]


async def _read_balances(connection: Connection, account: InstitutionAccount, day: RecordedDay) -> DayBalances:
    told = DayBalances(
        day=day.day, opening_cents=day.opening_cents, closing_cents=day.closing_cents, read_at=day.read_at
    )
    if day.opening_cents is not None or day.day != to_day(account.opened_at):
        return told
    # The books begin with a balance too, unless a line without an hour may be in it or not.
    before_cents = await item_store.sum_before_opening(connection, account.id, day.day)
    if before_cents is None:
        return told
    return structs.replace(told, opening_cents=account.opening_cents - before_cents)
