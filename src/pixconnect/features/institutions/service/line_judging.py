"""Judges lines of an account's statement by the recorded facts of their days, and records the outcomes.

The lock on recording is held until the transaction ends: two concurrent readings of one file would both find its lines new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.institutions.rules import judging
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import compare, count_by, sum_groups
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem, Waiting
from pixconnect.features.institutions.rules.judging import Evidence, JudgedLine, Judgement
from pixconnect.features.institutions.rules.unmatched import SET_ASIDE
from pixconnect.features.institutions.service.statement_account import find_balance_meaning
from pixconnect.features.institutions.statement_files.statement_file import ItemSource, StatementFile
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as file_store
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection

_AROUND: Final = timedelta(days=400)
"""How far from a file's days balances are searched."""
_AFTER: Final = timedelta(days=35)


class JudgedFile(Struct, frozen=True, kw_only=True):
    judgement: Judgement
    lines: Sequence[JudgedLine]
    """Of the file."""
    closed: frozenset[date]
    """Days that were proved before."""


async def judge_file(
    connection: Connection,
    account: InstitutionAccount,
    file: StatementFile,
    others: Collection[date],
    dated: tuple[datetime, date],
) -> JudgedFile:
    """Judge and record a file's lines, in the caller's transaction.

    Args:
        others: Days that another format has reported completely: ``judge_second`` judges their lines.
        dated: As ``StatementFile.date`` returns it.
    """
    await item_store.lock_recording(connection, account.id)
    lines = [item for item in file.items if item.day not in others]
    evidence = await _read_evidence(connection, account, file, lines, dated)
    evidence = structs.replace(evidence, elsewhere=frozenset(others))
    # A line reported by another format, under its own texts and ids, is the same line.
    told = [item for item in evidence.known if item.waits not in SET_ASIDE]
    told += [item for item in evidence.known if item.waits == "no_money" and item.source != file.format]
    matches = compare(lines, told, file.format).matches
    lines = [match or line for line, match in zip(lines, matches, strict=True)]
    judgement = judging.judge_lines(lines, evidence)
    other_forms_count = sum(match is not None for match in matches)
    judgement = structs.replace(judgement, same_ids_count=judgement.same_ids_count - other_forms_count)
    await write_judged(connection, account.id, file.format, judgement.lines, dated[0])
    return JudgedFile(judgement=judgement, lines=judgement.lines[: len(lines)], closed=evidence.closed)


async def judge_listed(
    connection: Connection, account_id: int, items: Sequence[InstitutionItem], now: datetime
) -> Sequence[JudgedLine]:
    """Judge and record lines that the institution's API lists, in the caller's transaction."""
    await item_store.lock_recording(connection, account_id)
    known = await item_store.find(connection, account_id, [item.item_id for item in items])
    judged = judging.judge_listed(items, known, to_day(now))
    changed = [line.item.item_id for line in judged if line.outcome == "changed"]
    asked = await item_store.find(connection, account_id, changed) if changed else {}
    judged = [structs.replace(line, outcome="known") if line.item.item_id in asked else line for line in judged]
    await write_judged(connection, account_id, "api", judged, now)
    return judged


async def write_judged(
    connection: Connection, account_id: int, source: ItemSource, lines: Sequence[JudgedLine], now: datetime
) -> None:
    fresh = [line for line in lines if line.known_id is None and line.outcome != "known"]
    await item_store.add(connection, [_keep(line, account_id, source, now) for line in fresh])
    found = {line.known_id: line for line in lines if line.known_id is not None and line.outcome != "known"}
    await item_store.note_waiting(connection, account_id, {name: _waits(line) for name, line in found.items()})
    await _find_again(connection, account_id, source, [line.item for line in lines if line.outcome == "new"])


async def _find_again(
    connection: Connection, account_id: int, source: ItemSource, new: Sequence[InstitutionItem]
) -> None:
    """Find waiting lines of another format alone: the format of their days has them now."""
    if not new:
        return
    days = min(item.day for item in new), max(item.day for item in new)
    counts, same = Counter(map(count_by, new)), dict[str, Waiting | None]()
    for item in await item_store.list_set_aside(connection, account_id, days):
        if item.source != source and item.waits == "contradicts" and counts[count_by(item)] > 0:
            counts[count_by(item)] -= 1
            same[item.item_id] = "same_line"
    await item_store.note_waiting(connection, account_id, same)


def _waits(line: JudgedLine) -> Waiting | None:
    return None if line.outcome in ("new", "known") else line.outcome


def _keep(line: JudgedLine, account_id: int, source: ItemSource, now: datetime) -> RecordedItem:
    return RecordedItem(
        **structs.asdict(line.item), institution_id=account_id, source=source, recorded_at=now, waits=_waits(line)
    )


async def _read_evidence(
    connection: Connection,
    account: InstitutionAccount,
    file: StatementFile,
    lines: Sequence[InstitutionItem],
    dated: tuple[datetime, date],
) -> Evidence:
    days = [file.first_on, file.last_on, *(line.day for line in lines)]
    first_on, last_on = min(days), max(days)
    recorded = await day_store.list_days(connection, account.id, first_on - _AROUND, last_on + _AFTER)
    closed = frozenset(day.day for day in recorded if day.is_closed)
    ends = _list_ends(recorded)
    newer = frozenset(day.day for day in recorded if day.read_at is not None and day.read_at > dated[0])
    agreed = {day.day for day in recorded if day.state != "open"}
    since = max((day for day in ends if day < first_on), default=None)
    if since is None and first_on - _AROUND < to_day(account.opened_at) < first_on:
        since = to_day(account.opened_at)
        agreed.add(since)
        if (cents := await _find_opening(connection, account)) is not None:
            ends[since] = cents
    later = sorted(day for day in ends if day > last_on)
    # A closed day's balance must still agree; without one, another may decide waiting lines.
    span = since or first_on, next((day for day in later if day in closed), later[0] if later else last_on)
    nets = Counter[date]()
    has_investments = find_balance_meaning(account) == "with_investments"
    for group in await item_store.sum_days(connection, account.id, *span, has_investments=has_investments):
        nets[group.day] += sum_groups([group]).net_cents
    known = await item_store.find(connection, account.id, [line.item_id for line in lines])
    near = await item_store.list_set_aside(connection, account.id, span)
    of_days = await item_store.list_days(connection, account.id, first_on, last_on)
    return Evidence(
        first_on=file.first_on,
        last_on=file.last_on,
        opening_cents=None if file.opening is None else file.opening.cents,
        closing=file.closing,
        ends={day: cents for day, cents in ends.items() if span[0] <= day <= span[1]},
        agreed=frozenset(agreed),
        closed=closed,
        newer=newer,
        nets=nets,
        today=dated[1],
        perhaps_texts=file.perhaps_texts,
        known=tuple((known | {item.item_id: item for item in (*near, *of_days) if _is_of(item, file.format)}).values()),
        ids_are_stable=await file_store.are_ids_stable(connection, account.id),
    )


def _is_of(item: RecordedItem, source: ItemSource) -> bool:
    """Whether a line of this form may be the item: what another form has set aside is that form's, unless people answered."""
    return item.source == source or item.waits == "no_money" or item.waits not in SET_ASIDE


def _list_ends(days: Sequence[RecordedDay]) -> dict[date, int]:
    """List the reported balances at the ends of days."""
    ends = {day.day - timedelta(days=1): day.opening_cents for day in days if day.opening_cents is not None}
    for day in days:
        if day.closing_cents is not None:
            ends[day.day] = day.closing_cents
    return ends


async def _find_opening(connection: Connection, account: InstitutionAccount) -> int | None:
    """Find the balance at the end of the day on which the account's books began, unless a line of that day has no hour."""
    day = to_day(account.opened_at)
    before_cents = await item_store.sum_before_opening(connection, account.id, day)
    has_investments = find_balance_meaning(account) == "with_investments"
    groups = await item_store.sum_days(connection, account.id, day, day, has_investments=has_investments)
    moved = sum_groups(groups).net_cents
    return None if before_cents is None else account.opening_cents + moved - before_cents
