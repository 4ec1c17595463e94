"""Reads the file that an institution writes of each day that is over: asked for once, fetched when it is written.

::

    asked ──► written, and read ──► the day is closed
      ▲              │ it is refused, the day is not closed, or nothing comes: after a day
      └──────────────┘

The name is kept as soon as it is told. Who dies before asks for another file of the same, which does no harm.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

import structlog
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.day import is_over
from pixconnect.domain.institutions.institution import DayFiles, InstitutionUnavailable
from pixconnect.domain.institutions.sweep import is_due
from pixconnect.store.institutions import day as day_store
from pixconnect.store.institutions import day_file as file_store
from pixconnect.store.institutions import sweep as sweep_store
from pixconnect.store.institutions.day_file import DayFile
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions.statement import list_span, record_day_file, settle_items
from pixconnect.usecases.institutions.sweep import note_end, note_failure

EVERY: Final = timedelta(minutes=1)
ASKED_AGAIN_AFTER: Final = timedelta(days=1)
DAYS_BEHIND: Final = timedelta(days=31)
"""A day that has not closed until then is for a person, who reads its file by hand."""
_BOOKED_AFTER: Final = timedelta(hours=1)
"""So long after a day's end its lines are all there, as we guess; a file that came too soon leaves its day open."""
_FAILURE_MAX: Final = 300

_log = structlog.get_logger(__name__)


async def read_day_files(context: Context, account: InstitutionAccount, files: DayFiles) -> int:
    """Ask for files that are wanted, read those that are written, and answer how many were read.

    Raises:
        InstitutionUnavailable: What was asked for and read until then stays.
    """
    lasts = await sweep_store.list_last_of(context.pool, account.id)
    now = context.clock.real_now()
    # The books begin with the first reading of payments.
    if "near" not in lasts or not is_due("statement", lasts.get("statement"), EVERY, now):
        return 0
    count = 0
    try:
        for day, asked in await _list_wanted(context, account, now):
            if asked is None or now - asked.asked_at >= ASKED_AGAIN_AFTER:
                name = await files.request_day_file(day)
                await file_store.write(
                    context.pool, DayFile(institution_id=account.id, day=day, name=name, asked_at=now)
                )
            elif asked.ended_at is None:
                content = await files.fetch_day_file(asked.name)
                count += content is not None and await _read(context, account, asked, content)
    except InstitutionUnavailable as error:
        await note_failure(context, account, "statement", error.reason)
        raise
    await note_end(context, account, "statement", now, count)
    return count


async def _list_wanted(
    context: Context, account: InstitutionAccount, now: datetime
) -> list[tuple[date, DayFile | None]]:
    """Days that are over and not closed, the oldest first, and what was asked for of each."""
    last = to_day(now - _BOOKED_AFTER) - timedelta(days=1)
    first = max(to_day(account.opened_at), last - DAYS_BEHIND)
    asked = await file_store.list_since(context.pool, account.id, first)
    recorded = await day_store.list_days(context.pool, account.id, first, last)
    closed = {day.day for day in recorded if day.is_closed}
    return [(day, asked.get(day)) for day in list_span(first, last) if day not in closed and is_over(day, now)]


async def _read(context: Context, account: InstitutionAccount, asked: DayFile, content: bytes) -> bool:
    failure = None
    try:
        await record_day_file(context, account, asked.day, content)
        await settle_items(context, account, asked.day)
    except errors.BadRequest as error:
        failure = str(error)[:_FAILURE_MAX]
        _log.error("the file of a day cannot be read", institution=account.name, day=str(asked.day), reason=failure)
    ended = structs.replace(asked, ended_at=context.clock.real_now(), failure=failure)
    await file_store.write(context.pool, ended)
    return failure is None
