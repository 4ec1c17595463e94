"""Reads the account's own statement if the API has one, as a list or a file of each day: lines are recorded, and settled.

The balance at yesterday's end is reported (Inter), or computed in a moment without movement: the present balance, less today's
lines. Two such balances, and the lines listed between them, prove the days between (``features/institutions/rules/day.py``);
one of them proves nothing.

A file of each past day is requested once, and fetched when it is written::

    asked ──► written, and read ──► the day is closed
      ▲              │ it is refused, the day is not closed, or nothing comes: after a day
      └──────────────┘

The first file waits for an operator (``fetch_own_file``): until its form is confirmed the worker requests one file and reads
none. The name is stored as soon as it is known. A process that dies before that requests another file of the same day, which is
harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import structlog
from msgspec import structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.balance_proof import is_called_balance
from pixconnect.features.institutions.rules.day import is_over, list_span
from pixconnect.features.institutions.rules.institution import DayFiles, Institution, InstitutionItem, InstitutionUnavailable
from pixconnect.features.institutions.rules.listed import ListReading
from pixconnect.features.institutions.rules.sweep import REPEATED_FOR, Sweep, is_due
from pixconnect.features.institutions.service.account import STILL_TRIES_MAX, lock_recording
from pixconnect.features.institutions.service.day import read_named_account
from pixconnect.features.institutions.service.line_joining import AT_ONCE
from pixconnect.features.institutions.service.line_judging import judge_listed, judge_second
from pixconnect.features.institutions.service.open_accounts import OpenInstitution, open_for_operator
from pixconnect.features.institutions.service.statement import find_others, record_day_file, settle_items
from pixconnect.features.institutions.service.statement_account import find_balance_meaning
from pixconnect.features.institutions.service.sweep import keep_unreadable, note_end, noting_failure
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import statement_file as statement_file_store
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.features.institutions.tables.statement_file import DayFile
from pixconnect.kernel.flows.context import Context, Operator, Writer, write_alone
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import begin_of_day, to_day

EVERY: Final = timedelta(minutes=10)
DAYS_BEHIND: Final = timedelta(days=2)  # whole days before today that are read again each hour: institutions book late
DISAGREEING_BEHIND: Final = timedelta(days=30)
"""Days read again each hour while a day disagrees: something may have been backdated."""
FILES_EVERY: Final = timedelta(minutes=1)
ASKED_AGAIN_AFTER: Final = timedelta(days=1)
FILES_BEHIND: Final = timedelta(days=31)
"""A day that has not closed until then is left to an operator, who reads its file by hand."""
_BOOKED_AFTER: Final = timedelta(hours=1)
"""An assumption: this long after a day's end its lines are complete; a file that comes too soon leaves its day open."""
_FAILURE_MAX: Final = 300

_log = structlog.get_logger(__name__)


async def sweep_statement(context: Context, account: InstitutionAccount, institution: Institution) -> int:
    """Read the last days' lines if that is due, and return how many there were.

    Raises:
        InstitutionUnavailable: Lines that were read until then stay; only a whole reading counts for their days.
    """
    if not institution.traits.has_statement:
        return 0
    lasts = await day_store.list_last_of(context.pool, account.id)
    last, began_at = lasts.get("statement"), context.clock.real_now()
    # The books begin with the first reading of payments.
    if "near" not in lasts or not is_due("statement", last, EVERY, began_at, account.lost_at):
        return 0
    today = to_day(began_at)
    first = await _find_first(context, account, last, began_at)
    async with noting_failure(context, account, "statement"):
        count, _ = await _record(context, account, institution, (first, today))
    # After the last page: a crash before it leaves lines, and no day that counts as read whole.
    await note_listed(context, account, (first, today))
    await settle_items(context, account, first)
    await note_end(context, account, "statement", began_at, count)
    if institution.traits.has_balance:
        await _note_closing(context, account, institution, today)
    return count


async def read_day_of_now(context: Context, account: InstitutionAccount, institution: Institution) -> None:
    """Read today's lines at once, and match or post them.

    Raises:
        InstitutionUnavailable: As ``sweep_statement``.
        ServiceUnavailable: Another process works on the account's lines.
    """
    today = to_day(context.clock.real_now())
    await _record(context, account, institution, (today, today))
    await settle_items(context, account, today)


async def _find_first(context: Context, account: InstitutionAccount, last: Sweep | None, now: datetime) -> date:
    """Find the first day to read: none is left out, open ones come again, and each hour more do."""
    today, opened_on = to_day(now), to_day(account.opened_at)
    # If the account was added again after a loss, only these days show what it had paid in the lost time.
    forgotten = await day_store.list_unread_of_loss(context.pool, account.id, now - REPEATED_FOR)
    if last is None:
        return min([opened_on, *forgotten])
    days = await day_store.list_days(context.pool, account.id, today - DISAGREEING_BEHIND, today - timedelta(days=1))
    behind = today - DAYS_BEHIND
    first = min(today, to_day(last.began_at))
    # The first reading of each hour goes further back; the others to the open days.
    if int(last.began_at.timestamp()) // 3600 == int(now.timestamp()) // 3600:
        behind = min((day.day for day in days if day.day >= behind and not day.is_closed), default=today)
    elif any(day.state == "open" for day in days):
        behind = today - DISAGREEING_BEHIND
    return min([max(min(first, behind), opened_on), *forgotten])


async def _record(
    context: Context,
    account: InstitutionAccount,
    institution: Institution,
    days: tuple[date, date],
    moved: dict[str, int] | None = None,
) -> tuple[int, bool]:
    """Record all lines of some days, page by page; return how many there were, and whether each was readable.

    Args:
        moved: Receives each line's amount, by its id: a line that shifting pages list twice counts once. Announced lines and
            balances do not count.
    """
    count, is_whole, listed, reading = 0, True, list[InstitutionItem](), ListReading()
    others = await find_others(context.pool, account.id, "api", days)
    async for page in institution.list_statement(*days):
        # Without an unreadable line the day's sums disagree, so that it stays open.
        lines = await keep_unreadable(context, account, page)
        is_whole = is_whole and len(lines) == len(page)
        await record_listed(context, account, lines, reading)
        count += len(lines)
        listed += [line for line in lines if line.day in others]
        if moved is not None:
            counted = (line for line in lines if line.day <= days[1] and not is_called_balance(line))
            moved.update((line.item_id, line.signed_cents) for line in counted)
    reading.is_complete = True
    await record_listed(context, account, reading.held, reading)
    if is_whole and others:
        await _compare(context, account, others, [line for line in listed if line.amount_cents])
    return count, is_whole


async def _compare(
    context: Writer, account: InstitutionAccount, days: Mapping[date, RecordedDay], lines: Sequence[InstitutionItem]
) -> None:
    """Compare all lines that the API lists for days already covered by files."""
    now = context.clock.now()
    async with write_alone(context.pool) as connection:
        await lock_recording(connection, account)
        # Pages shift while they are read.
        lines = list({line.item_id: line for line in lines}.values())
        compared = await judge_second(connection, account.id, "api", days, lines, (now, to_day(now)), is_whole=True)
        for day in days.values():
            await day_store.note_second(connection, day, compared.unlisted[day.day])


async def record_listed(
    context: Writer, account: InstitutionAccount, items: Sequence[InstitutionItem], reading: ListReading | None = None
) -> int:
    """Store the lines listed by the institution's API, and return how many are new.

    A list may have any number of them, so it is stored in parts: after a crash the stored part is true. Its completeness is
    recorded separately (``note_listed``). Lines that may be recorded ones are held until the last page of a ``reading``.
    """
    new_count = 0
    for start in range(0, len(items), AT_ONCE):
        part = [item for item in items[start : start + AT_ONCE] if item.amount_cents]
        async with write_alone(context.pool) as connection:
            await lock_recording(connection, account)
            others = await find_others(connection, account.id, "api", sorted({item.day for item in part}))
            listed = [item for item in part if item.day not in others]
            judged = await judge_listed(connection, account.id, listed, context.clock.now(), reading)
            days = sorted({line.item.day for line in judged if line.outcome != "announced"})
            await day_store.write_reported(
                connection, [RecordedDay(institution_id=account.id, day=day, source="api") for day in days]
            )
            new = [line.item for line in judged if line.outcome == "new"]
            if new:
                await day_store.forget_closings(connection, account.id, min(item.day for item in new))
        new_count += len(new)
    return new_count


async def note_listed(context: Writer, account: InstitutionAccount, days: tuple[date, date]) -> None:
    """Record that the API's list of some whole days, first and last included, was read to its end."""
    spoken = list_span(*days)
    async with write_alone(context.pool) as connection:
        await lock_recording(connection, account)
        others = await find_others(connection, account.id, "api", spoken)
        now = context.clock.now()
        await day_store.write_reported(
            connection,
            [RecordedDay(institution_id=account.id, day=day, source="api", read_at=now) for day in spoken if day not in others],
        )


async def _note_closing(context: Context, account: InstitutionAccount, institution: Institution, today: date) -> None:
    """Record the balance at yesterday's end, reported or computed."""
    yesterday = today - timedelta(days=1)
    if yesterday < to_day(account.opened_at):
        return
    known = await day_store.list_days(context.pool, account.id, yesterday, yesterday)
    if all(day.is_closed for day in known):
        return
    closing_cents, blocked_at = await institution.read_closing_balance(yesterday), begin_of_day(context.clock.now())
    if closing_cents is None:
        closing_cents, blocked_at = await _reckon(context, account, institution, today), context.clock.now()
    if closing_cents is not None:
        if find_balance_meaning(account) == "available":
            closing_cents += await books_store.read_blocked(context.pool, account.id, blocked_at, [], [])
        await day_store.write_closing(context.pool, account.id, yesterday, closing_cents)
        await settle_items(context, account, yesterday)


async def _reckon(context: Context, account: InstitutionAccount, institution: Institution, today: date) -> int | None:
    """Compute today's opening balance in a moment without movement."""
    for _ in range(STILL_TRIES_MAX):
        before_cents = await institution.read_balance()
        moved = dict[str, int]()
        _, is_whole = await _record(context, account, institution, (today, today), moved)
        # Lines and balance are of one moment only if nothing has moved while they were read.
        is_still = await institution.read_balance() == before_cents
        # Past midnight the balance includes lines of a day that was not read.
        if not is_whole or to_day(context.clock.real_now()) != today:
            return None
        if is_still:
            return before_cents - sum(moved.values())
    return None


async def read_day_files(context: Context, account: InstitutionAccount, files: DayFiles) -> int:
    """Request wanted files, read written ones, and return how many were read.

    Raises:
        InstitutionUnavailable: Earlier requests and readings stay.
    """
    lasts = await day_store.list_last_of(context.pool, account.id)
    now = context.clock.real_now()
    # The books begin with the first reading of payments.
    if "near" not in lasts or not is_due("statement", lasts.get("statement"), FILES_EVERY, now):
        return 0
    count = 0
    wanted = await _list_wanted(context, account, now)
    is_confirmed = any(source.is_own for source in await statement_file_store.list_sources(context.pool, account.id))
    async with noting_failure(context, account, "statement"):
        for day, asked in wanted if is_confirmed else wanted[:1]:
            if asked is None or now - asked.asked_at >= ASKED_AGAIN_AFTER:
                name = await files.request_day_file(day)
                requested = DayFile(institution_id=account.id, day=day, name=name, asked_at=now)
                await statement_file_store.write(context.pool, requested)
            elif asked.ended_at is None and is_confirmed:
                content = await files.fetch_day_file(asked.name)
                count += content is not None and await _read(context, account, asked, content)
    await note_end(context, account, "statement", now, count)
    return count


async def fetch_own_file(context: Operator, open_institution: OpenInstitution, name: str) -> bytes:
    """Return the oldest requested and unread file, for the operator who confirms the first one.

    Raises:
        NotFound: The account or file does not exist.
        ServiceUnavailable: The institution has not written it, or gives no answer.
    """
    account = await read_named_account(context, name)
    asked = await statement_file_store.list_since(context.pool, account.id, to_day(account.opened_at))
    day = min((one.day for one in asked.values() if one.ended_at is None), default=None)
    async with open_for_operator(context, open_institution, account) as institution:
        files = institution.day_files
        if day is None or files is None:
            raise errors.NotFound(f"file: {name} has no file of the institution's own that waits; name a file")
        try:
            content = await files.fetch_day_file(asked[day].name)
        except InstitutionUnavailable as error:
            raise errors.ServiceUnavailable(f"{name}: {error.reason}") from error
    if content is None:
        raise errors.ServiceUnavailable(f"{name}: the file of {day} is not written yet: try again in an hour")
    return content


async def _list_wanted(context: Context, account: InstitutionAccount, now: datetime) -> list[tuple[date, DayFile | None]]:
    """List past days that are not closed, oldest first, and the requested file of each."""
    last = to_day(now - _BOOKED_AFTER) - timedelta(days=1)
    first = max(to_day(account.opened_at), last - FILES_BEHIND)
    asked = await statement_file_store.list_since(context.pool, account.id, first)
    recorded = await day_store.list_days(context.pool, account.id, first, last)
    closed = {day.day for day in recorded if day.is_closed}
    return [(day, asked.get(day)) for day in list_span(first, last) if day not in closed and is_over(day, now)]


async def _read(context: Context, account: InstitutionAccount, asked: DayFile, content: bytes) -> bool:
    failure = None
    try:
        await record_day_file(context, account, asked.day, content, asked.name)
        await settle_items(context, account, asked.day)
    except errors.BadRequest as error:
        failure = str(error)[:_FAILURE_MAX]
        _log.error("the file of a day cannot be read", institution=account.name, day=str(asked.day), reason=failure)
    ended = structs.replace(asked, ended_at=context.clock.real_now(), failure=failure)
    await statement_file_store.write(context.pool, ended)
    return failure is None
