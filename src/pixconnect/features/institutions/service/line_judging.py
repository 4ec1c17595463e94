"""Judges lines of an account's statement by the recorded facts of their days, and records the outcomes.

The lock on recording is held until the transaction ends: two concurrent readings of one file would both find its lines new.

A second format of a day's statement is compared with the first one: agreement confirms, and nothing is posted twice. The format
that first reports a day completely owns the day. A line of another format alone waits for an operator in the case of its day,
until a later file of the first format has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.institutions.rules import judging, listed
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.balance_proof import find_differing, is_called_balance
from pixconnect.features.institutions.rules.day import compare, count_by, sum_groups
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem, Waiting
from pixconnect.features.institutions.rules.judging import Evidence, JudgedLine, Judgement
from pixconnect.features.institutions.rules.listed import ListReading
from pixconnect.features.institutions.rules.unmatched import ASKED, OUTCOMES, SET_ASIDE
from pixconnect.features.institutions.service.day import LOOKED_BACK, find_unread
from pixconnect.features.institutions.service.statement_account import sum_days
from pixconnect.features.institutions.statement_files.statement_file import ITEM_ID_LENGTH_MAX, ItemSource, StatementFile
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as file_store
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection

_AFTER: Final = timedelta(days=35)
_GONE: Final = frozenset(("announced", "withdrawn", "same_line"))
"""Lines with one of these reasons are no line of their day."""
_NO_LINES: Final = tuple(reason for reason in SET_ASIDE if reason != "same_line")
"""Reasons of the API's lines that moved no money, under this id or under that of a file's line."""
_QUESTIONS_ASIDE: Final = tuple(reason for reason in SET_ASIDE if reason in ASKED)


class SecondForm(Struct, frozen=True, kw_only=True):
    lines: Sequence[JudgedLine]
    unlisted: Counter[date]  # recorded lines of each day that count and are not in this form


async def judge_file(
    connection: Connection,
    account: InstitutionAccount,
    file: StatementFile,
    others: Collection[date],
    dated: tuple[datetime, date],
) -> tuple[Judgement, Sequence[JudgedLine], frozenset[date]]:
    """Judge and record a file's lines, in the caller's transaction, which has locked the recording.

    Returns:
        All lines' judgement, the file's lines, and the days that were proved before.

    Args:
        others: Days that another format has reported completely: ``judge_second`` judges their lines.
        dated: As ``StatementFile.date`` returns it.
    """
    lines = [item for item in file.items if item.day not in others]
    evidence = await _read_evidence(connection, account, file, lines, dated)
    differing = find_differing(file.items, others, evidence.nets, has_investments=file.has_investments)
    evidence = structs.replace(evidence, elsewhere=frozenset(others), lacking=differing)
    # A line reported by another format, under its own texts and ids, is the same line.
    counted = [item for item in evidence.known if item.waits not in SET_ASIDE]
    counted += [item for item in evidence.known if item.waits == "no_money" and item.source != file.format]
    matches = compare(lines, counted, file.format).matches
    lines = [match or line for line, match in zip(lines, matches, strict=True)]
    judgement = judging.judge_lines(lines, evidence)
    other_forms_count = sum(match is not None for match in matches)
    lines_judged = tuple(_ask_nobody_before(to_day(account.opened_at), line) for line in judgement.lines)
    same_ids_count = judgement.same_ids_count - other_forms_count
    judgement = structs.replace(judgement, lines=lines_judged, same_ids_count=same_ids_count)
    await write_judged(connection, account.id, file.format, judgement.lines, dated[0])
    return judgement, judgement.lines[: len(lines)], evidence.closed


def _ask_nobody_before(begins_on: date, line: JudgedLine) -> JudgedLine:
    """The books begin with a balance, which includes what such a line may be."""
    is_asked = line.item.day < begins_on and OUTCOMES[line.outcome].asks != "nobody"
    return structs.replace(line, outcome="before_opening") if is_asked else line


async def judge_listed(
    connection: Connection, account_id: int, items: Sequence[InstitutionItem], now: datetime, reading: ListReading | None = None
) -> Sequence[JudgedLine]:
    """Judge and record lines that the institution's API lists, in the caller's transaction, which has locked the recording."""
    known, names = dict[str, RecordedItem](), [item.item_id for item in items]
    if reading is not None:
        reading.ids.update(names)
    while names:
        known |= await item_store.find(connection, account_id, names)
        items, names = listed.name_paid(items, known)
    known |= await _find_named(connection, account_id, items)
    judged = judging.judge_listed(items, known, to_day(now))
    changed = [line.item.item_id for line in judged if line.outcome == "changed"]
    asked = await item_store.find(connection, account_id, changed) if changed else {}
    judged = [structs.replace(line, outcome="known") if line.item.item_id in asked else line for line in judged]
    if reading is not None:
        reading.ids.update(name for line in judged for name in (line.item.item_id, line.known_id) if name is not None)
        # Another line under the same id has a mark in its own, and replaces none.
        waiting = [one for one in known.values() if one.waits == "changed" and "~" not in one.item_id]
        reading.changed.update({one.item_id: (one.day, one.signed_cents) for one in waiting})
    if new := [line.item for line in judged if line.outcome in ("new", "perhaps_balance")]:
        span = min(item.day for item in new), max(item.day for item in new), [*{item.amount_cents for item in new}]
        matches = listed.find_filed(new, await item_store.list_filed(connection, account_id, *span))
        await _note_shown(connection, account_id, "api", matches)
        filed_ids = {item.item_id for item, match in zip(new, matches, strict=True) if match is not None}
        judged = [structs.replace(line, outcome="same_line") if line.item.item_id in filed_ids else line for line in judged]
        if reading is not None:
            unlisted = await item_store.list_unlisted(connection, account_id, *span, _NO_LINES, [*reading.ids])
            judged = [*listed.judge_replacing(judged, unlisted, reading)]
            known |= {item.item_id: item for item in unlisted}
    again = {line.known_id: line.item for line in judged if line.outcome == "known" and line.known_id is not None}
    named = {name: item for name, item in again.items() if not known[name].names and item.names}
    await item_store.add_names(connection, account_id, named)
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


async def _find_again(connection: Connection, account_id: int, source: ItemSource, new: Sequence[InstitutionItem]) -> None:
    """Find waiting lines of another format alone: the format of their days has them now."""
    if not new:
        return
    span = min(item.day for item in new), max(item.day for item in new)
    waiting = await item_store.list_waiting_as(connection, account_id, *span, _QUESTIONS_ASIDE)
    same = compare(new, [item for item in waiting if item.source != source], source).matches
    await item_store.note_waiting(connection, account_id, {item.item_id: "same_line" for item in same if item is not None})


async def _note_shown(
    connection: Connection, account_id: int, source: ItemSource, matches: Sequence[RecordedItem | None]
) -> None:
    """A line in a second format is no payer's text."""
    shown = [one for one in matches if one is not None and one.waits == "perhaps_text" and one.source != source]
    await item_store.note_waiting(connection, account_id, {item.item_id: None for item in shown})


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
    recorded = await day_store.list_days(connection, account.id, first_on - LOOKED_BACK, last_on + _AFTER)
    closed = frozenset(day.day for day in recorded if day.is_closed)
    ends = _list_ends(recorded)
    newer = frozenset(day.day for day in recorded if day.read_at is not None and day.read_at > dated[0])
    agreed = {day.day for day in recorded if day.state != "open"}
    since = max((day for day in ends if day < first_on), default=None)
    if since is None and first_on - LOOKED_BACK < to_day(account.opened_at) < first_on:
        since = to_day(account.opened_at)
        agreed.add(since)
        if (cents := await _find_opening(connection, account)) is not None:
            ends[since] = cents
    later = sorted(day for day in ends if day > last_on)
    # A closed day's balance must still agree; without one, another may decide waiting lines.
    span = since or first_on, next((day for day in later if day in closed), later[0] if later else last_on)
    nets = Counter[date]()
    changes, unsure = await sum_days(connection, account, *span)
    for group in changes:
        nets[group.day] += sum_groups([group]).net_cents
    # Balances close days between two statements too, until a file covers them.
    read = {day.day for day in recorded if day.read_at is not None and span[0] <= day.day <= span[1]}
    unread = frozenset[date]()
    if read and (max(read) - min(read)).days >= len(read):
        found = await find_unread(connection, account, span, dated[0])
        unread = frozenset(day for day in found if not file.first_on <= day <= file.last_on)
    known = await item_store.find(connection, account.id, [line.item_id for line in lines])
    known |= await _find_named(connection, account.id, lines)
    near = await item_store.list_waiting_as(connection, account.id, *span, SET_ASIDE)
    of_days = await item_store.list_days(connection, account.id, first_on, last_on)
    return Evidence(
        first_on=file.first_on,
        last_on=file.last_on,
        opening_cents=None if file.opening is None else file.opening.cents,
        closing=file.closing,
        ends={day: cents for day, cents in ends.items() if span[0] <= day <= span[1]},
        begins={day.day: day.opening_cents for day in recorded if day.opening_cents is not None},
        agreed=frozenset(agreed),
        closed=closed | unread,
        unread=unread,
        newer=newer,
        has_investments=file.has_investments,
        unsure=unsure,
        nets=nets,
        today=dated[1],
        perhaps_texts=file.perhaps_texts,
        taken={item.item_id for item in (*near, *of_days)},
        known=tuple((known | {item.item_id: item for item in (*near, *of_days) if _is_of(item, file.format)}).values()),
        ids_are_stable=await file_store.are_ids_stable(connection, account.id),
    )


async def _find_named(connection: Connection, account_id: int, lines: Sequence[InstitutionItem]) -> dict[str, RecordedItem]:
    """Find movements of any day that debits name: the bank may date a Pix otherwise in each file."""
    named = {name: line.amount_cents for line in lines if (name := judging.find_own_name(line))}
    asked = [*{*named.values()}], [*named], *item_store.NO_DAYS
    found = await item_store.list_moved(connection, account_id, *asked) if named else []
    return {item.item_id: item for item in found}


def _is_of(item: RecordedItem, source: ItemSource) -> bool:
    """Whether a line of this form may be the item: what another form has set aside is that form's, unless people answered."""
    return item.source == source or item.waits == "no_money" or item.waits not in SET_ASIDE


def _list_ends(days: Sequence[RecordedDay]) -> dict[date, int]:
    ends = {day.day - timedelta(days=1): day.opening_cents for day in days if day.opening_cents is not None}
    for day in days:
        if day.closing_cents is not None:
            ends[day.day] = day.closing_cents
    return ends


async def _find_opening(connection: Connection, account: InstitutionAccount) -> int | None:
    """Find the balance at the end of the day on which the account's books began, unless a line of that day has no hour."""
    day = to_day(account.opened_at)
    before_cents = await item_store.sum_before_opening(connection, account.id, day)
    groups, unsure = await sum_days(connection, account, day, day)
    moved = sum_groups(groups).net_cents
    return None if before_cents is None or unsure else account.opening_cents + moved - before_cents


async def judge_second(
    connection: Connection,
    account_id: int,
    source: ItemSource,
    days: Mapping[date, RecordedDay],
    lines: Sequence[InstitutionItem],
    dated: tuple[datetime, date],
    *,
    is_whole: bool,
) -> SecondForm:
    """Compare lines of days that another format has reported completely.

    It belongs to the caller's transaction, which has locked the recording.

    Lines in both are known. Lines in this format alone are recorded and wait for an operator: they move no money by themselves.
    If this file is known to be complete (``is_whole``), lines missing from it are no longer in question.
    """
    if not days:
        return SecondForm(lines=(), unlisted=Counter())
    span = min(days), max(days)
    recorded = [item for item in await item_store.list_days(connection, account_id, *span) if item.day in days]
    standing = sorted((item for item in recorded if item.waits not in _GONE), key=lambda item: item.waits in SET_ASIDE)
    own_aside = [item for item in recorded if item.source == source and item.waits in SET_ASIDE]
    compared = compare(lines, [item for item in standing if item not in own_aside], source)
    await _note_shown(connection, account_id, source, compared.matches)
    more = [line for line, is_more in zip(lines, compared.is_more, strict=True) if is_more]
    named = [structs.replace(line, item_id=f"{source}:{line.item_id}"[:ITEM_ID_LENGTH_MAX]) for line in more]
    # A reference may come again on another day, or for a line that an operator has answered.
    found = await item_store.find(connection, account_id, [line.item_id for line in named])
    evidence = Evidence(
        first_on=span[0],
        last_on=span[1],
        closed=frozenset(days),
        today=dated[1],
        known=tuple(own_aside),
        taken={*found, *(item.item_id for item in recorded)},
        is_whole=is_whole,
    )
    judged = [_settle_called(line, days) for line in judging.judge_lines(named, evidence).lines]
    judged_ids = {line.known_id for line in judged}
    waiting = [item for item in own_aside if item.item_id not in judged_ids and item.recorded_at <= dated[0]]
    judged += _list_shown(waiting, [line for line, match in zip(lines, compared.matches, strict=True) if match is not None])
    await write_judged(connection, account_id, source, judged, dated[0])
    known = [line for line, is_more in zip(lines, compared.is_more, strict=True) if not is_more]
    return SecondForm(
        lines=[*(JudgedLine(item=line, outcome="known") for line in known), *judged[: len(more)]],
        unlisted=Counter(item.day for item in compared.unlisted if item.waits not in SET_ASIDE),
    )


def _list_shown(waiting: Sequence[RecordedItem], known: Sequence[InstitutionItem]) -> list[JudgedLine]:
    """List lines of this form that wait, and that it shows among the lines that the other form has now."""
    counts, shown = Counter((*count_by(line), line.text) for line in known), list[JudgedLine]()
    for item in waiting:
        if item.waits in ASKED and counts[key := (*count_by(item), item.text)] > 0:
            counts[key] -= 1
            shown.append(JudgedLine(item=item, outcome="same_line", known_id=item.item_id))
    return shown


def _settle_called(line: JudgedLine, days: Mapping[date, RecordedDay]) -> JudgedLine:
    """A closed day has all of its lines: what is called a balance is none of them."""
    is_closed = line.item.day in days and days[line.item.day].is_closed
    is_balance = line.outcome == "perhaps_balance" and is_called_balance(line.item)
    return structs.replace(line, outcome="balance_line") if is_closed and is_balance else line
