"""Reads the file that an institution writes of each past day: requested once, fetched when it is written.

::

    asked ──► written, and read ──► the day is closed
      ▲              │ it is refused, the day is not closed, or nothing comes: after a day
      └──────────────┘

The first file waits for an operator (``fetch_own_file``): until its form is confirmed the worker requests one file and reads
none. The name is stored as soon as it is known. A process that dies before that requests another file of the same day, which is
harmless.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

import structlog
from msgspec import structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import is_over
from pixconnect.features.institutions.rules.institution import DayFiles, InstitutionUnavailable
from pixconnect.features.institutions.rules.sweep import is_due
from pixconnect.features.institutions.service.account import found
from pixconnect.features.institutions.service.credential import OpenInstitution, open_for_operator
from pixconnect.features.institutions.service.statement import list_span, record_day_file, settle_items
from pixconnect.features.institutions.service.sweep import note_end, note_failure
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import statement_file as statement_file_store
from pixconnect.features.institutions.tables.statement_file import DayFile
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day

EVERY: Final = timedelta(minutes=1)
ASKED_AGAIN_AFTER: Final = timedelta(days=1)
DAYS_BEHIND: Final = timedelta(days=31)
"""A day that has not closed until then is left to an operator, who reads its file by hand."""
_BOOKED_AFTER: Final = timedelta(hours=1)
"""An assumption: this long after a day's end its lines are complete; a file that comes too soon leaves its day open."""
_FAILURE_MAX: Final = 300

_log = structlog.get_logger(__name__)


async def read_day_files(context: Context, account: InstitutionAccount, files: DayFiles) -> int:
    """Request wanted files, read written ones, and return how many were read.

    Raises:
        InstitutionUnavailable: Earlier requests and readings stay.
    """
    lasts = await day_store.list_last_of(context.pool, account.id)
    now = context.clock.real_now()
    # The books begin with the first reading of payments.
    if "near" not in lasts or not is_due("statement", lasts.get("statement"), EVERY, now):
        return 0
    count = 0
    wanted = await _list_wanted(context, account, now)
    is_confirmed = any(source.is_own for source in await statement_file_store.list_sources(context.pool, account.id))
    try:
        for day, asked in wanted if is_confirmed else wanted[:1]:
            if asked is None or now - asked.asked_at >= ASKED_AGAIN_AFTER:
                name = await files.request_day_file(day)
                await statement_file_store.write(
                    context.pool, DayFile(institution_id=account.id, day=day, name=name, asked_at=now)
                )
            elif asked.ended_at is None and is_confirmed:
                content = await files.fetch_day_file(asked.name)
                count += content is not None and await _read(context, account, asked, content)
    except InstitutionUnavailable as error:
        await note_failure(context, account, "statement", error.reason)
        raise
    await note_end(context, account, "statement", now, count)
    return count


async def fetch_own_file(context: Operator, open_institution: OpenInstitution, name: str) -> bytes:
    """Return the oldest requested and unread file, for the operator who confirms the first one.

    Raises:
        NotFound: The account or file does not exist.
        ServiceUnavailable: The institution has not written it, or gives no answer.
    """
    async with context.pool.acquire() as connection:
        account = found(await account_store.find_named(connection, name), name)
        asked = await statement_file_store.list_since(connection, account.id, to_day(account.opened_at))
    day = min((one.day for one in asked.values() if one.ended_at is None), default=None)
    institution = await open_for_operator(context, open_institution, account)
    try:
        files = institution.day_files
        if day is None or files is None:
            raise errors.NotFound(f"file: {name} has no file of the institution's own that waits; name a file")
        content = await files.fetch_day_file(asked[day].name)
    except InstitutionUnavailable as error:
        raise errors.ServiceUnavailable(f"{name}: {error.reason}") from error
    finally:
        await institution.close()
    if content is None:
        raise errors.ServiceUnavailable(f"{name}: the file of {day} is not written yet: try again in an hour")
    return content


async def _list_wanted(
    context: Context, account: InstitutionAccount, now: datetime
) -> list[tuple[date, DayFile | None]]:
    """List past days that are not closed, oldest first, and the requested file of each."""
    last = to_day(now - _BOOKED_AFTER) - timedelta(days=1)
    first = max(to_day(account.opened_at), last - DAYS_BEHIND)
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
