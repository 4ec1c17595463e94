"""Days of accounts at institutions: judges them from recorded facts, and lists days and their lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.due_charges.rules.terms import count_business_days
from pixconnect.features.institutions.rules import day as day_rules
from pixconnect.features.institutions.rules import special_line
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import BalanceGap, DayBalances, DayCases, ItemGroup, JudgedDay
from pixconnect.features.institutions.rules.institution import DaySource, find_day_source
from pixconnect.features.institutions.rules.joining import BookLine, RecordedItem
from pixconnect.features.institutions.rules.unmatched import ASK_NOBODY, SET_ASIDE
from pixconnect.features.institutions.service.account import found
from pixconnect.features.institutions.service.open_accounts import OpenInstitution, open_for_operator
from pixconnect.features.institutions.service.statement_account import find_balance_meaning, sum_days
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.institutions.tables.day import OpenDays, RecordedDay
from pixconnect.kernel.flows.context import Context, Core, Operator, Writer, write_alone
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection

LOOKED_BACK: Final = timedelta(days=400)  # earlier days are no longer checked, and no balance of them is searched
SHOWN_DAYS: Final = 7
FIRST_DAY: Final = date(2020, 11, 16)  # of Pix
LAST_DAY: Final = date(2999, 12, 31)
UNMATCHED_MAX: Final = 10_000
_ONE_DAY: Final = timedelta(days=1)
_PROVED_WITHIN: Final = timedelta(days=31)
"""Most days without a final balance are proved by one that was reported within this time after them."""
READ_WITHIN: Final = timedelta(days=2)
"""All readings of an account repeat within a day: a line that none has explained by then waits for an operator."""
FILE_WITHIN: Final = 3
"""In business days: banks have a day's file on the next one, and people may read it after a weekend or a holiday."""


class AccountDays(Struct, frozen=True, kw_only=True):
    account: InstitutionAccount
    days: Sequence[JudgedDay]


class ReadDays(Struct, frozen=True, kw_only=True):
    source: DaySource
    last_read_at: datetime | None
    """The last whole reading of its list, or check for files; ``None`` if no worker does that."""
    failure: str | None  # of the last try since, or of the last unreadable file

    @property
    def close_by_themselves(self) -> bool:
        return self.source != "file_by_hand"


class DayLines(Struct, frozen=True, kw_only=True):
    """All lines of a day: the institution's, and our unmatched ones."""

    shown: JudgedDay
    items: Sequence[RecordedItem]
    lines_alone: Sequence[BookLine]


class UnmatchedSpan(Struct, frozen=True, kw_only=True):
    """Differences between both sides, from the first day that is not closed."""

    since: date  # earlier days are no longer checked
    days: Sequence[JudgedDay]  # past days whose reported balances and lines disagree
    items: Sequence[RecordedItem]  # the institution's items of past days without one of our records
    lines: Sequence[BookLine]  # our lines of days read after their end that the statement lacks
    is_cut: bool  # whether there are more
    gaps: Sequence[BalanceGap]  # days whose statement has been missing for ``FILE_WITHIN``
    first: tuple[date, int] | None = None
    """The first day with a balance, and by how much that before it exceeds the books; later balances chain to that one."""


async def judge(context: Writer, account: InstitutionAccount, touched_on: date) -> None:
    """Judge the days since the first changed or open one."""
    # A file recorded meanwhile would change days that this judges, and lock them in another order.
    async with write_alone(context.pool) as connection:
        await item_store.lock_recording(connection, account.id)
        await judge_days(connection, account, touched_on, context.clock.now())


async def judge_days(connection: Connection, account: InstitutionAccount, touched_on: date, now: datetime) -> None:
    open_days = await day_store.find_open(connection, account.id, to_day(now) - LOOKED_BACK, touched_on)
    judged = await _judge_span(connection, account, open_days, to_day(now), now)
    if await _forget_early(connection, account, judged):
        judged = await _judge_span(connection, account, open_days, to_day(now), now)
    await day_store.write_states(connection, account.id, [(day.day, day.state) for day in judged], now)


async def _forget_early(connection: Connection, account: InstitutionAccount, judged: Sequence[JudgedDay]) -> bool:
    """Forget computed balances that had lines of the next day before these were listed: both days differ by the lines."""
    forgotten = list[date]()
    for one, after in pairwise(judged):
        cents = one.difference_cents
        if cents and after.difference_cents == -cents and after.day - one.day == _ONE_DAY:
            forgotten += await day_store.forget_early(connection, account.id, one.day, cents, SET_ASIDE)
    return bool(forgotten)


async def find_unmatched(connection: Connection, account: InstitutionAccount, now: datetime) -> UnmatchedSpan:
    today = to_day(now)
    since = today - LOOKED_BACK
    spans = await day_store.list_unread(connection, account.id, max(since, to_day(account.opened_at)))
    own = await line_store.sum_unmatched_days(connection, account.id, spans)
    swept = await _find_swept(connection, account, spans)
    open_days = await day_store.find_open(connection, account.id, since, min((today, *own, *swept)), with_gaps=True)
    first_on = open_days.judged_from
    judged = await _judge_span(connection, account, open_days, today, now)
    # After all items of the day before: a position is a day and an item's id.
    after = (first_on - _ONE_DAY, "\U0010ffff")
    items = await item_store.list_unjoined(connection, account.id, *after, UNMATCHED_MAX, ASK_NOBODY)
    begins_on = max(first_on, to_day(account.opened_at))
    lines = await line_store.list_unmatched(connection, account.id, (begins_on, today))
    # A day shows its missing lines only when it is read after its end.
    whole = {one.day for one in judged if one.was_read_whole}
    days = [
        one for one in judged if (one.difference_cents or one.cases.disagreements_count) and day_rules.is_over(one.day, now)
    ]
    asking, redeemed = list[RecordedItem](), list[RecordedItem]()
    for item in items:
        is_early = item.waits == "day_not_over" or (item.waits == "not_yet_read" and now - item.recorded_at < READ_WITHIN)
        if not is_early and day_rules.is_over(item.day, now):
            (redeemed if special_line.waits_for_file(item) else asking).append(item)
    gaps = day_rules.find_gaps(judged, {one.day for one in (*days, *asking)}, own, swept)
    # Redemptions wait for one file, of when their money was applied: the gap asks for it, or the first of them does.
    within = special_line.UNREAD_FOR
    asking += [one for one in redeemed if not any(gap.first_on <= one.day <= gap.last_on + within for gap in gaps)][:1]
    return UnmatchedSpan(
        since=since,
        days=days,
        items=asking,
        lines=[line for line in lines if line.day in whole],
        gaps=await _find_late(connection, account, gaps, today) if gaps else [],
        is_cut=len(items) == UNMATCHED_MAX or len(lines) == line_store.ALONE_MAX,
        first=await _compare_first(connection, account, since, now),
    )


async def _find_swept(connection: Connection, account: InstitutionAccount, spans: Sequence[tuple[date, date]]) -> list[date]:
    """Find business days without a statement after a day with an application: sweeps leave equal balances."""
    spans = [(first, last) for first, last in spans if count_business_days(first - _ONE_DAY, last)]
    if not spans or find_balance_meaning(account) == "with_investments":
        return []
    invested = await day_store.list_invested(connection, account.id)
    applied = {day for day, direction, _ in invested if direction == "OUT"}
    recorded = await day_store.list_days(connection, account.id, spans[0][0], spans[-1][1]) if applied else []
    read = {day.day for day in recorded if day.read_at is not None}
    days = list[date]()
    for first, last in spans:
        is_swept = first - _ONE_DAY in applied
        for day in day_rules.list_span(first, last):
            if day in read:
                is_swept = day in applied
            elif is_swept and count_business_days(day - _ONE_DAY, day):
                days.append(day)
    return days


async def _find_late(
    connection: Connection, account: InstitutionAccount, gaps: Sequence[BalanceGap], today: date
) -> list[BalanceGap]:
    read_at = await line_store.find_first_covered(connection, account.id, [day for gap in gaps for day in gap.beside])

    def is_late(gap: BalanceGap) -> bool:
        read_on = [to_day(read_at[day]) for day in gap.beside if day in read_at]
        return count_business_days(max([*gap.beside, *read_on]), today) >= FILE_WITHIN

    return [gap for gap in gaps if is_late(gap)]


async def _compare_first(
    connection: Connection, account: InstitutionAccount, since: date, now: datetime
) -> tuple[date, int] | None:
    began_on = to_day(account.opened_at)
    first = await day_store.find_first_stated(connection, account.id, began_on)
    if first is None or not max(since, began_on) <= first.day < to_day(now):
        return None
    stated_cents, ends_on = first.opening_cents, first.day - _ONE_DAY
    # The books' first day is judged from the books' own balance.
    if stated_cents is None and first.day > began_on:
        stated_cents, ends_on = first.closing_cents, first.day
    begin = await _read_balances(connection, account, DayBalances(day=began_on))
    cases = await item_store.count_cases(connection, account.id, began_on, ends_on)
    lines = await line_store.list_unmatched(connection, account.id, (began_on, ends_on))
    is_doubtful = any(of_day.doubts_count for of_day in cases.values()) or len(lines) == line_store.ALONE_MAX
    if stated_cents is None or begin.opening_cents is None or is_doubtful:
        return None
    days = await day_store.list_days(connection, account.id, began_on, first.day)
    sums = await _sum_days(connection, account, began_on, first.day)
    # The other lines are cases of their days.
    whole = {day.day for day in days if day.was_read_whole}
    moved = [line.signed_cents for line in lines if line.day not in whole]
    moved += [of_day.net_cents for day, of_day in sums.items() if day <= ends_on]
    first_on = next(one.day for one in day_rules.judge_days(days, sums, {}, now) if one.opening_cents is not None)
    return first_on, stated_cents - begin.opening_cents - sum(moved)


async def list_waiting(connection: Connection, institution_id: int, day: date | None) -> list[RecordedItem]:
    """List an account's lines of a day, or of all, that wait for an operator or a later reading, by day and id."""
    items = await item_store.list_unjoined(connection, institution_id, day or FIRST_DAY, "", UNMATCHED_MAX, ASK_NOBODY)
    return [item for item in items if day in (None, item.day)]


async def judge_anew(
    connection: Connection, account: InstitutionAccount, since: date, now: datetime
) -> list[tuple[RecordedDay, JudgedDay]]:
    """Return recorded days, each with its new judgement, oldest first."""
    every = OpenDays(judged_from=since, carried_from=since)
    judged = {one.day: one for one in await _judge_span(connection, account, every, to_day(now), now)}
    return [(day, judged[day.day]) for day in await day_store.list_days(connection, account.id, since, to_day(now))]


async def find_unread(
    connection: Connection, account: InstitutionAccount, span: tuple[date, date], now: datetime
) -> frozenset[date]:
    """Find days of a span that no statement covers, and that the balances around them close."""
    every = OpenDays(judged_from=span[0], carried_from=span[0])
    judged = await _judge_span(connection, account, every, span[1], now)
    return frozenset(one.day for one in judged if one.read_at is None and one.state in ("closed", "closed_with_cases"))


async def find_difference(connection: Connection, account: InstitutionAccount, day: date, now: datetime) -> int | None:
    """Return by how much a recorded day's closing balance exceeds its opening balance and its lines, as known now."""
    open_days = await day_store.find_open(connection, account.id, day - LOOKED_BACK, day)
    judged = await _judge_span(connection, account, open_days, day, now)
    return next(one.difference_cents for one in judged if one.day == day)


async def list_days(
    context: Core, account: InstitutionAccount, last_on: date | None = None, count: int = SHOWN_DAYS
) -> list[JudgedDay]:
    """List the last days, oldest first; a day without a statement has nothing but its state.

    Raises:
        BadRequest: Pix did not exist yet, or the day is centuries away.
    """
    now = context.clock.now()
    last_on = to_day(now) if last_on is None else last_on
    if not FIRST_DAY <= last_on <= LAST_DAY:
        raise errors.BadRequest(f"day: must be from {FIRST_DAY}, when Pix began, to {LAST_DAY}")
    first_on = last_on - timedelta(days=count - 1)
    async with context.pool.acquire() as connection:
        began = await day_store.find_open(connection, account.id, first_on - LOOKED_BACK, first_on)
        until = max(last_on, min(to_day(now), last_on + _PROVED_WITHIN))
        judged = {one.day: one for one in await _judge_span(connection, account, began, until, now)}
    days = [DayBalances(day=day) for day in day_rules.list_span(first_on, last_on)]
    return [judged.get(one.day, one) for one in day_rules.judge_days(days, {}, {}, now)]


async def list_accounts_days(context: Context) -> list[AccountDays]:
    """List the last days of each account; there are few accounts."""
    accounts = await account_store.list_all(context.pool)
    return [AccountDays(account=account, days=await list_days(context, account)) for account in accounts]


async def read_named_account(context: Core, name: str) -> InstitutionAccount:
    return found(await account_store.find_named(context.pool, name), name)


async def read_how(context: Operator, open_institution: OpenInstitution, account: InstitutionAccount) -> ReadDays:
    # Opened for its traits, without calls.
    async with open_for_operator(context, open_institution, account) as institution:
        source = find_day_source(institution)
    async with context.pool.acquire() as connection:
        last = await day_store.find(connection, account.id, "statement")
        failure = (last and last.failure) or await line_store.find_failure(connection, account.id)
    return ReadDays(source=source, last_read_at=last and last.ended_at, failure=failure)


async def read_day(context: Core, account: InstitutionAccount, day: date) -> DayLines:
    (shown,) = await list_days(context, account, day, 1)
    async with context.pool.acquire() as connection:
        items = await item_store.list_days(connection, account.id, day, day)
        lines = await line_store.list_unmatched(connection, account.id, (day, day))
    return DayLines(shown=shown, items=items, lines_alone=lines)


async def _sum_days(
    connection: Connection, account: InstitutionAccount, first_on: date, last_on: date
) -> dict[date, day_rules.DaySums]:
    groups = defaultdict[date, list[ItemGroup]](list)
    changes, _ = await sum_days(connection, account, first_on, last_on)
    for group in changes:
        groups[group.day].append(group)
    return {day: day_rules.sum_groups(of_day) for day, of_day in groups.items()}


async def _judge_span(
    connection: Connection, account: InstitutionAccount, open_days: OpenDays, last_on: date, now: datetime
) -> list[JudgedDay]:
    first_on = open_days.carried_from
    recorded = await day_store.list_days(connection, account.id, first_on, last_on)
    sums = await _sum_days(connection, account, first_on, last_on)
    cases = await item_store.count_cases(connection, account.id, first_on, last_on)
    # Before the books begin none of our lines is missing.
    begins_on = max(first_on, to_day(account.opened_at))
    alone = await line_store.list_unmatched(connection, account.id, (begins_on, last_on)) if recorded else []
    for day, count in Counter(line.day for line in alone).items():
        cases[day] = structs.replace(cases.get(day, DayCases()), lines_count=count)
    for day in recorded:
        counts = cases.get(day.day, DayCases())
        cases[day.day] = structs.replace(counts, disagreements_count=day.disagreements_count)
    balances = [await _read_balances(connection, account, day) for day in recorded]
    judged = {one.day: one for one in day_rules.judge_days(balances, sums, cases, now)}
    for day in recorded:
        one = judged[day.day]
        # Its proof may be older than the days read here.
        state = day.state if day.day < open_days.judged_from else one.state
        judged[day.day] = structs.replace(one, state=state, closed_at=day.closed_at, reopened_at=day.reopened_at)
    return list(judged.values())


async def _read_balances(connection: Connection, account: InstitutionAccount, day: DayBalances) -> DayBalances:
    if day.opening_cents is not None or day.day != to_day(account.opened_at):
        return day
    # The books begin with a balance too, unless it is unclear whether that includes a line without an hour.
    before_cents = await item_store.sum_before_opening(connection, account.id, day.day)
    return day if before_cents is None else structs.replace(day, opening_cents=account.opening_cents - before_cents)
