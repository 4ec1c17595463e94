"""The lines of an institution's statement: each is recorded once, then matched to our record of it, or posted.

Recording a line decides nothing about money. Matching and posting follow, for one account by one process at a time, and may be
repeated after a crash at any instant: matches stay, and a movement is posted once for its item. A process that dies after
posting leaves a movement with the item's name, which the next run matches.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import is_over, list_span
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.judging import JudgedLine, Judgement
from pixconnect.features.institutions.rules.unmatched import ASKED, OUTCOMES, SET_ASIDE, UnmatchedItem
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement_account
from pixconnect.features.institutions.service.account import being_worked_on, lock_recording
from pixconnect.features.institutions.service.line_joining import DONE, find_left, list_alone, post_kept
from pixconnect.features.institutions.service.line_judging import SecondForm, judge_file, judge_second
from pixconnect.features.institutions.service.statement_posting import post_unowned, reserve_lines
from pixconnect.features.institutions.statement_files import statement_file as files
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables import statement_file as reserved_store
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.features.institutions.tables.statement_file import FILE
from pixconnect.features.movements import service as movement_usecases
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.rules.kept_report import storable
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from pixconnect.platform.pool import Connection, Pool

WAITED_MAX: Final = timedelta(days=35)
"""Lines that have waited for longer are checked once a day, or when a statement covers their day."""
_BEFORE: Final = timedelta(days=35)  # how far before a day a lasting difference of two forms is looked for
_SETTLED_WITHIN: Final = timedelta(hours=1)
"""For this long after a file is recorded its days are judged with each look; for ``WAITED_MAX`` once a day."""


class RecordedStatement(Struct, frozen=True, kw_only=True):
    """The contents of a recorded statement."""

    first_on: date
    last_on: date
    known_until: date  # the last day whose movements it can list
    read_at: datetime  # when it was first read
    new: Sequence[InstitutionItem]
    known_count: int
    set_aside: Sequence[JudgedLine] = ()  # lines that moved no money, or may not have
    closing_cents: int | None = None  # the balance at the end of the last day, if reported
    compared_days: Sequence[date] = ()  # days reported by another format, with which this one was compared
    notes: Sequence[str] = ()  # what the file's reader skipped or could not prove
    others: Sequence[StatementAccount] = ()  # further accounts of the file, which were not read


class FilePreview(Struct, frozen=True, kw_only=True):
    """What the first file of a form would do, for the operator who confirms it."""

    chosen: statement_account.ChosenStatements
    recorded: RecordedStatement
    posts: Sequence[UnmatchedItem]  # lines that would become movements now
    waiting_count: int

    @property
    def balances(self) -> tuple[files.StatedBalance | None, files.StatedBalance | None]:
        """At the end of the day before the file, and at its end."""
        return self.chosen.first.opening, self.chosen.statements[-1].closing


async def preview_file(context: Operator, name: str, content: bytes, *, is_own: bool = False) -> FilePreview | None:
    """Return what a file would do, without doing it; ``None`` if an operator has confirmed that form of file.

    Raises:
        NotFound: As ``record_file``; ``BadRequest`` too.
    """
    account = await day_usecases.read_named_account(context, name)
    file, now = statement_account.parse_file(content), context.clock.now()
    async with context.pool.acquire() as connection:
        chosen = await statement_account.choose(connection, account, file, is_own=is_own)
        if chosen.is_confirmed:
            return None
        transaction = connection.transaction()
        await transaction.start()
        try:
            await statement_account.confirm(context, connection, account, chosen)
            recorded = await _record_file(connection, account, chosen, content, now)
            alone = await list_alone(connection, account, recorded.first_on)
            left, _ = await find_left(connection, account, alone, now)
        finally:
            await transaction.rollback()
    posts = [one for one in left if one.waits is None]
    return FilePreview(chosen=chosen, recorded=recorded, posts=posts, waiting_count=len(left) - len(posts))


async def record_file(
    context: Operator, name: str, content: bytes, *, is_own: bool = False, file_name: str = ""
) -> RecordedStatement:
    """Record a statement file of an account; for the first file of a form this is the operator's confirmation.

    Raises:
        NotFound: The account does not exist.
        BadRequest: The file is ambiguous or of another account, or the account is closed; nothing of it was kept.
    """
    account = await day_usecases.read_named_account(context, name)
    file = statement_account.parse_file(content)
    async with write_alone(context.pool) as connection:
        chosen = await statement_account.choose(connection, account, file, is_own=is_own)
        facts = dict[str, object](format=file.format)
        if not chosen.is_confirmed:
            await statement_account.confirm(context, connection, account, chosen)
            facts["confirmed"] = str(chosen.first.account)
        recorded = await _record_file(connection, account, chosen, content, context.clock.now(), file_name)
        facts |= dict(first_on=recorded.first_on, last_on=recorded.last_on, new_count=len(recorded.new))
        await audit.record(context, connection, "institution statement", f"institution {name}", after=facts)
    return recorded


async def record_day_file(context: Writer, account: InstitutionAccount, day: date, content: bytes, file_name: str) -> None:
    """Record the institution's own file of a day.

    Raises:
        BadRequest: As ``record_file``; it is of another day, or no operator has confirmed the first such file.
    """
    # Such a file may have a hundred thousand lines, and the worker's other accounts go on meanwhile.
    file = await asyncio.to_thread(statement_account.parse_file, content)
    if (file.first_on, file.last_on) != (day, day):
        raise errors.BadRequest(f"file: it is of {file.first_on} to {file.last_on}, and was asked for of {day}")
    async with write_alone(context.pool) as connection:
        chosen = await statement_account.choose(connection, account, file, is_own=True)
        if not chosen.is_confirmed:
            raise errors.BadRequest(f"file: is the first of its form: `institution statement {account.name}` shows it")
        await _record_file(connection, account, chosen, content, context.clock.now(), file_name)


async def _record_file(
    connection: Connection,
    account: InstitutionAccount,
    chosen: statement_account.ChosenStatements,
    content: bytes,
    now: datetime,
    file_name: str = "",
) -> RecordedStatement:
    digest = hashlib.sha256(content).digest()
    # Before anything is read: a form that is recorded meanwhile decides what this one is for its days.
    await lock_recording(connection, account)
    # To judge a hundred thousand lines takes seconds, in which the transaction sends nothing.
    await connection.execute("set local idle_in_transaction_session_timeout = '60s'")
    # A repeated file is judged as before.
    read_at = await reserved_store.find_first_reading(connection, account.id, digest) or now
    parts = [await _record(connection, account, statement, read_at) for statement in chosen.statements]
    recorded = _merge([part for part, _ in parts], chosen.others)
    read = files.RecordedFile(
        institution_id=account.id,
        digest=digest,
        name=storable(file_name),
        format=chosen.first.format,
        is_own=chosen.is_own,
        first_on=recorded.first_on,
        last_on=recorded.last_on,
        items_count=sum(len(statement.items) for statement in chosen.statements),
        same_ids_count=sum(judgement.same_ids_count for _, judgement in parts),
        other_ids_count=sum(judgement.other_ids_count for _, judgement in parts),
        recorded_at=now,
    )
    await FILE.insert_new(connection, read)
    return recorded


def _merge(parts: Sequence[RecordedStatement], others: Sequence[StatementAccount]) -> RecordedStatement:
    return structs.replace(
        parts[-1],
        first_on=parts[0].first_on,
        new=[item for part in parts for item in part.new],
        known_count=sum(part.known_count for part in parts),
        set_aside=[line for part in parts for line in part.set_aside],
        compared_days=[day for part in parts for day in part.compared_days],
        notes=[note for part in parts for note in part.notes],
        others=others,
    )


async def _record(
    connection: Connection, account: InstitutionAccount, file: files.StatementFile, read_at: datetime
) -> tuple[RecordedStatement, Judgement]:
    file = await statement_account.add_blocked(connection, account, file)
    dated, begins_on = file.date(read_at), to_day(account.opened_at)
    as_of, known_until = dated
    # Many banks write the days that were asked for, up to the end of the month.
    spoken = list_span(file.first_on, min(file.last_on, to_day(as_of)))
    others = await find_others(connection, account.id, file.format, [*spoken, *(item.day for item in file.items)])
    judgement, own_lines, closed = await judge_file(connection, account, file, others, dated)
    second = [item for item in file.items if item.day in others]
    first = others.get(file.first_on)
    compared = await judge_second(
        *(connection, account.id, file.format, others, second, dated),
        is_whole=files.is_whole(file, None if first is None else first.opening_cents),
    )
    judged_lines = [*own_lines, *compared.lines]
    await _note_second(connection, account, file, others, compared, as_of)
    lines = {outcome: [line.item for line in judged_lines if line.outcome == outcome] for outcome in OUTCOMES}
    if judgement.replaced_from is not None and file.closing is not None:
        await day_store.replace_proof(connection, account.id, judgement.replaced_from, file.closing.on, as_of)
    # A file that contradicts proved days without a proof changes nothing about them, not even when they were read.
    is_corrected = any(line.outcome == "perhaps_struck" for line in judgement.lines)
    contradicts = any(line.outcome == "contradicts" for line in own_lines)
    kept = closed if contradicts and not is_corrected else frozenset[date]()
    covered = {*spoken} - kept
    # A line dated beyond the file's days is kept, and proves nothing about its day; without a row, a question has no case.
    dated_on = {line.item.day for line in own_lines if line.outcome in ("new", *ASKED)}
    # Earlier days than the books have no state.
    days = [day for day in sorted((covered | dated_on) - set(others)) if day >= begins_on]
    opening, closing = file.opening, files.find_final_balance(file, as_of)
    await day_store.write_reported(
        connection,
        [
            RecordedDay(
                institution_id=account.id,
                day=day,
                source=file.format,
                # Of days after the last one that it can list, the file shows no end.
                read_at=(as_of if day <= known_until else datetime.combine(day, time(), SAO_PAULO)) if day in covered else None,
                opening_cents=opening.cents if opening and day == file.first_on and day not in kept else None,
                closing_cents=closing.cents if closing and day == closing.on and day not in kept else None,
            )
            for day in days
        ],
    )
    recorded = RecordedStatement(
        first_on=file.first_on,
        last_on=file.last_on,
        known_until=known_until,
        read_at=read_at,
        new=lines["new"],
        known_count=len(lines["known"]),
        set_aside=[line for line in judged_lines if line.outcome in SET_ASIDE],
        closing_cents=file.closing.cents if file.closing is not None and file.closing.on == file.last_on else None,
        compared_days=sorted(others),
        notes=(*file.notes, *files.note_ongoing(file, as_of)),
    )
    return recorded, judgement


async def _note_second(
    connection: Connection,
    account: InstitutionAccount,
    file: files.StatementFile,
    others: Mapping[date, RecordedDay],
    compared: SecondForm,
    as_of: datetime,
) -> None:
    """Record the file's contradictions of days that another format has reported; where it agrees, missing balances."""
    closing = files.find_final_balance(file, as_of)
    more = {line.item.day for line in compared.lines if line.outcome not in ("known", "balance_line")}
    covered = [one for day, one in others.items() if file.first_on <= day <= file.last_on and is_over(day, as_of)]
    usual_cents = await _find_difference(connection, min(covered, key=lambda one: one.day)) if covered else 0
    for one in covered:
        opening_cents = file.opening.cents if file.opening and one.day == file.first_on else None
        closing_cents = closing.cents if closing and one.day == closing.on else None
        balances = (one.opening_cents, opening_cents), (one.closing_cents, closing_cents)
        # A computed balance yields to a told one with which the day's lines agree.
        is_open = one.source == "api" and one.state == "open" and not usual_cents
        if is_open and closing_cents is not None and one.closing_cents is not None:
            difference_cents = await day_usecases.find_difference(connection, account, one.day, as_of)
            if closing_cents == one.closing_cents - (difference_cents or 0):
                balances = balances[0], (None, closing_cents)
        apart = [new - old for old, new in balances if old is not None and new is not None and new != old]
        # A persistent difference is a case of the first day that has it.
        differ_count = sum(cents != usual_cents for cents in apart)
        is_same = not (apart or compared.unlisted[one.day] or one.day in more)
        missing = [new if old is None and is_same else None for old, new in balances]
        count = compared.unlisted[one.day] + differ_count
        await day_store.note_second(connection, one, count, (missing[0], missing[1]), closing_cents)


async def _find_difference(connection: Connection, day: RecordedDay) -> int:
    """Return by how much a second form's last earlier closing balance was above the first form's."""
    before = await day_store.list_days(connection, day.institution_id, day.day - _BEFORE, day.day - timedelta(days=1))
    differences = [
        one.second_closing_cents - one.closing_cents
        for one in before
        if one.second_closing_cents is not None and one.closing_cents is not None
    ]
    return differences[-1] if differences else 0


async def find_others(
    connection: Connection | Pool, institution_id: int, source: files.ItemSource, days: Collection[date]
) -> dict[date, RecordedDay]:
    """Find those of some days that another format has reported: a file whole, for otherwise it yields to one that has."""
    days_read = await day_store.list_days(connection, institution_id, min(days), max(days)) if days else []
    return {one.day: one for one in days_read if one.source != source and (one.source == "api" or one.was_read_whole)}


class SettledStatement(Struct, frozen=True, kw_only=True):
    """The result for unmatched items."""

    joined_count: int = 0
    posted_count: int = 0
    waiting_count: int = 0


async def settle_items(context: Writer, account: InstitutionAccount, since: date | None = None) -> SettledStatement:
    """Match the items, post the unmatched ones, and judge the days again; repeating it changes nothing more.

    Args:
        since: The first day that a statement has just covered.

    Raises:
        ServiceUnavailable: Another process does the same for this account.
    """
    # A session owns the lock, so its connection is kept to the end, and all the work uses another one.
    async with context.pool.keep() as locking, day_store.working_on(locking, account.id) as is_alone:
        if not is_alone:
            raise errors.ServiceUnavailable(being_worked_on(account))
        now = context.clock.now()
        async with context.pool.acquire() as connection:
            spoken_of = to_day(now) if since is None else since
            failed_on = await return_store.release_failed(connection, account.id, now - WAITED_MAX)
            alone = await list_alone(connection, account, min((spoken_of, to_day(now) - WAITED_MAX, *failed_on)))
            verdicts, released = await find_left(connection, account, alone, now)
        posted_count = await post_unowned(context, account, verdicts)
        await post_kept(context, account, now)
        reopening_on = await day_store.find_reopening(context.pool, account.id, spoken_of - WAITED_MAX, ASKED)
        touched_on = min((spoken_of, reopening_on or spoken_of, *(item.day for item in (*alone, *released))))
        looked_back_to = to_day(now) - day_usecases.LOOKED_BACK
        open_days = await day_store.find_open(context.pool, account.id, looked_back_to, touched_on)
        # Still under the lock, so that no item of the account becomes a movement meanwhile.
        await movement_usecases.take_back_proved(context, account.id, (open_days.judged_from, to_day(now)))
        await reserve_lines(context, account)
        await day_usecases.judge(context, account, touched_on)
    return SettledStatement(
        joined_count=len(alone) + len(released) - len(verdicts),
        posted_count=posted_count,
        waiting_count=len(verdicts) - posted_count,
    )


async def settle_if_free(context: Writer, account: InstitutionAccount, since: date | None) -> None:
    """Settle the items, unless another process is doing it: that one, or the worker's next round, settles these too."""
    with suppress(errors.ServiceUnavailable):
        await settle_items(context, account, since)


async def settle_waiting(context: Writer, account: InstitutionAccount, *, is_deep: bool) -> None:
    """Settle the remaining lines of files, readings and answers, and release reserves without a waiting line.

    Args:
        is_deep: Also check those that have waited for longer than ``WAITED_MAX``.
    """
    today = to_day(context.clock.now())
    since = today - (day_usecases.LOOKED_BACK if is_deep else WAITED_MAX)
    first_on = await day_store.find_unsettled(context.pool, account.id, since, today, DONE)
    pool = context.pool
    # A process may have died after it recorded a file, and before it judged the days.
    recorded_since = context.clock.now() - (WAITED_MAX if is_deep else _SETTLED_WITHIN)
    read_on = await reserved_store.find_read_since(pool, account.id, recorded_since)
    # And one that died after an answer about the only line has left its reserve.
    wrong = await reserved_store.list_differing(pool, account.id) or await books_store.list_early(pool, account.id)
    days = [day for day in (first_on, read_on) if day is not None]
    if days or wrong:
        await settle_if_free(context, account, min(days, default=None))
