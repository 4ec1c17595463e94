"""Reads the account's own statement where there is one by API: its lines are kept, joined, and posted where nobody's.

What was on the account when yesterday ended is told (Inter), or reckoned in a moment in which nothing moves: the balance of
now, less today's lines. Two such balances, and what was listed between them, prove the days between
(``domain/institutions/day.py``); one of them proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.institution import Institution, InstitutionItem, InstitutionUnavailable
from pixconnect.domain.institutions.statement_file import to_day
from pixconnect.domain.institutions.sweep import Sweep, is_due
from pixconnect.store.institutions import day as day_store
from pixconnect.store.institutions import sweep as sweep_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions.account import STILL_TRIES_MAX
from pixconnect.usecases.institutions.statement import record_listed, settle_items
from pixconnect.usecases.institutions.sweep import keep_unreadable, note_end, note_failure

EVERY: Final = timedelta(minutes=10)
DAYS_BEHIND: Final = timedelta(days=2)
"""Whole days before today that are read again each hour: institutions book late."""
DISAGREEING_BEHIND: Final = timedelta(days=30)
"""So far back each hour while a day disagrees: something may have been dated back."""


async def sweep_statement(context: Context, account: InstitutionAccount, institution: Institution) -> int:
    """Read the last days' lines if that is due, and answer how many there were.

    Raises:
        InstitutionUnavailable: Nothing of this reading is kept.
    """
    if not institution.traits.has_statement:
        return 0
    lasts = await sweep_store.list_last_of(context.pool, account.id)
    last, began_at = lasts.get("statement"), context.clock.real_now()
    # The books begin with the first reading of payments.
    if "near" not in lasts or not is_due("statement", last, EVERY, began_at):
        return 0
    today = to_day(began_at)
    first = await _find_first(context, account, last, began_at)
    try:
        read = await _read(context, account, institution, first, today)
    except InstitutionUnavailable as error:
        await note_failure(context, account, "statement", error.reason)
        raise
    await record_listed(context, account, (first, today), read.items)
    await settle_items(context, account, first)
    await note_end(context, account, "statement", began_at, len(read.items))
    if institution.traits.has_balance:
        await _note_closing(context, account, institution, today)
    return len(read.items)


async def _find_first(context: Context, account: InstitutionAccount, last: Sweep | None, now: datetime) -> date:
    """The first day to read: none is left out, what is not closed comes again, and each hour more does."""
    today, opened_on = to_day(now), to_day(account.opened_at)
    if last is None:
        return opened_on
    days = await day_store.list_days(context.pool, account.id, today - DISAGREEING_BEHIND, today - timedelta(days=1))
    behind = today - DAYS_BEHIND
    first = min(today, to_day(last.read_until))
    if int(last.began_at.timestamp()) // 3600 == int(now.timestamp()) // 3600:
        behind = min((day.day for day in days if day.day >= behind and not day.is_closed), default=today)
    elif any(day.state == "open" for day in days):
        behind = today - DISAGREEING_BEHIND
    return max(min(first, behind), opened_on)


class _Listed(Struct, frozen=True, kw_only=True):
    items: Sequence[InstitutionItem]
    is_whole: bool
    """Each line could be read."""


async def _read(
    context: Context, account: InstitutionAccount, institution: Institution, first: date, last: date
) -> _Listed:
    items: list[InstitutionItem] = []
    is_whole = True
    async for page in institution.list_statement(first, last):
        for item in page:
            if isinstance(item, InstitutionItem):
                items.append(item)
            else:
                is_whole = False
                # Without it the day's sums disagree, so that it stays open.
                await keep_unreadable(context, account, item)
    return _Listed(items=items, is_whole=is_whole)


async def _note_closing(context: Context, account: InstitutionAccount, institution: Institution, today: date) -> None:
    """Note what was on the account when yesterday ended, as it is told or can be reckoned."""
    yesterday = today - timedelta(days=1)
    if yesterday < to_day(account.opened_at):
        return
    known = await day_store.list_days(context.pool, account.id, yesterday, yesterday)
    if all(day.is_closed for day in known):
        return
    closing_cents = await institution.read_closing_balance(yesterday)
    if closing_cents is None:
        closing_cents = await _reckon(context, account, institution, today)
    if closing_cents is not None:
        await day_store.write_closing(context.pool, account.id, yesterday, closing_cents)
        await settle_items(context, account, yesterday)


async def _reckon(context: Context, account: InstitutionAccount, institution: Institution, today: date) -> int | None:
    """What was on the account when today began, by a moment in which nothing moves."""
    for _ in range(STILL_TRIES_MAX):
        before_cents = await institution.read_balance()
        read = await _read(context, account, institution, today, today)
        is_still = await institution.read_balance() == before_cents
        if not read.is_whole or to_day(context.clock.real_now()) != today:
            return None
        if is_still:
            await record_listed(context, account, (today, today), read.items)
            # One that was listed twice while pages shifted is one.
            moved_cents = sum(item.signed_cents for item in {item.item_id: item for item in read.items}.values())
            return before_cents - moved_cents
    return None
