"""Compares a second format of a day's statement with the first one: agreement confirms, and nothing is posted twice.

The format that first reports a day completely owns the day. A line of another format alone waits for an operator in the case of
its day, until a later file of the first format has it.

Also reserves the sums of waiting debits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.contests.rules.block import open_line_block
from pixconnect.features.contests.service.held_blocks import HeldBlocks
from pixconnect.features.institutions.rules import judging
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import compare, is_over
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.judging import Evidence, JudgedLine
from pixconnect.features.institutions.rules.unmatched import SET_ASIDE
from pixconnect.features.institutions.service.line_judging import write_judged
from pixconnect.features.institutions.statement_files.statement_file import (
    ITEM_ID_LENGTH_MAX,
    ItemSource,
    StatementFile,
    find_final_balance,
)
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as reserved_store
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.kernel.flows.context import Writer
from pixconnect.kernel.flows.ledger import lock_balances
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.platform.pool import Connection

_BEFORE: Final = timedelta(days=35)
_GONE: Final = frozenset(("announced", "withdrawn", "same_line"))
"""Lines with one of these reasons are no line of their day."""


class SecondForm(Struct, frozen=True, kw_only=True):
    lines: Sequence[JudgedLine]
    unlisted: Counter[date]
    """Recorded lines of each day that count and are not in this form."""


async def judge_second(
    connection: Connection,
    account_id: int,
    source: ItemSource,
    days: Collection[date],
    lines: Sequence[InstitutionItem],
    dated: tuple[datetime, date],
    *,
    is_whole: bool,
) -> SecondForm:
    """Compare lines of days that another format has reported completely, in the caller's transaction.

    Lines in both are known. Lines in this format alone are recorded and wait for an operator: they move no money by themselves.
    If this file is known to be complete (``is_whole``), lines missing from it are no longer in question.
    """
    if not days:
        return SecondForm(lines=(), unlisted=Counter())
    await item_store.lock_recording(connection, account_id)
    span = min(days), max(days)
    recorded = [item for item in await item_store.list_days(connection, account_id, *span) if item.day in days]
    standing = sorted((item for item in recorded if item.waits not in _GONE), key=lambda item: item.waits in SET_ASIDE)
    own_aside = [item for item in recorded if item.source == source and item.waits in SET_ASIDE]
    compared = compare(lines, [item for item in standing if item not in own_aside], source)
    # A line in a second format is no payer's text.
    shown = [
        one for one in compared.matches if one is not None and one.waits == "perhaps_text" and one.source != source
    ]
    await item_store.note_waiting(connection, account_id, {item.item_id: None for item in shown})
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
    judged = judging.judge_lines(named, evidence).lines
    await write_judged(connection, account_id, source, judged, dated[0])
    known = [line for line, is_more in zip(lines, compared.is_more, strict=True) if not is_more]
    return SecondForm(
        lines=[*(JudgedLine(item=line, outcome="known") for line in known), *judged[: len(more)]],
        unlisted=Counter(item.day for item in compared.unlisted if item.waits not in SET_ASIDE),
    )


async def note_second(
    connection: Connection,
    file: StatementFile,
    others: Mapping[date, RecordedDay],
    compared: SecondForm,
    as_of: datetime,
) -> None:
    """Record the file's contradictions of days that another format has reported; where it agrees, missing balances."""
    closing = find_final_balance(file, as_of)
    more = {line.item.day for line in compared.lines if line.outcome != "known"}
    covered = [one for day, one in others.items() if file.first_on <= day <= file.last_on and is_over(day, as_of)]
    usual_cents = await _find_difference(connection, min(covered, key=lambda one: one.day)) if covered else 0
    for one in covered:
        opening_cents = file.opening.cents if file.opening and one.day == file.first_on else None
        closing_cents = closing.cents if closing and one.day == closing.on else None
        balances = (one.opening_cents, opening_cents), (one.closing_cents, closing_cents)
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
    told = [
        one.second_closing_cents - one.closing_cents
        for one in before
        if one.second_closing_cents is not None and one.closing_cents is not None
    ]
    return told[-1] if told else 0


async def find_others(
    connection: Connection, institution_id: int, source: ItemSource, days: Collection[date]
) -> dict[date, RecordedDay]:
    """Find those of some days that another format has reported."""
    told = await day_store.list_days(connection, institution_id, min(days), max(days)) if days else []
    return {one.day: one for one in told if one.source != source}


# Reserves the sum of each waiting debit of a statement in a block of the house: the bank may have debited it, so the house
# cannot pay it out.
#
# - A debit waits: a block opens, as far as there is money; incoming money covers the rest.
# - The debit becomes a movement: the block ends in the same transaction.
# - The debit is matched, set aside or struck: the block ends when the account's lines are settled.
#
# Each run compares waiting debits with open blocks, so that reading a file again changes nothing, and a run after a crash does
# the rest. A waiting credit has no effect, since it has no entry.

_CHANGED_AT_ONCE: Final = 50
"""Each takes up to two ids of the batch."""


class AccountLines(Struct, frozen=True, kw_only=True):
    institution_id: int
    holder_id: int
    """The account's house."""


async def reserve_lines(context: Writer, account: InstitutionAccount) -> None:
    """Make the blocks of an account's house match its waiting debits. Call it while no line is judged."""
    asked = AccountLines(institution_id=account.id, holder_id=account.house_id)
    while await reserved_store.differs(context.pool, account.id):
        # Changes that another has made meanwhile, or that no run can make, are not tried again.
        if not await context.writes.submit(RESERVE_LINES, asked):
            return


async def _reserve_lines(batch: Batch[AccountLines]) -> list[bool]:
    """Return, for each account, whether anything was changed."""
    work = await lock_balances(batch)
    held = work.claim(HeldBlocks)
    await held.read()
    outcomes: list[bool] = []
    for asked in batch:
        # After the lock: posting a line as a movement of the house ends its block under the same one.
        waiting = await reserved_store.list_waiting(batch.connection, asked.institution_id)
        blocks = [one for one in held.open.list_of(asked.holder_id) if one.state == "open" and one.line_id is not None]
        ended = [block for block in blocks if block.line_id not in waiting][:_CHANGED_AT_ONCE]
        for block in ended:
            held.end_line(block)
        reserved = {block.line_id for block in blocks}
        lacking = [line for line in waiting.items() if line[0] not in reserved]
        outcomes.append(bool(ended or lacking))
        for line in lacking[: _CHANGED_AT_ONCE - len(ended)]:
            held.hold(None, open_line_block(work.take_id(), asked.holder_id, asked.institution_id, line, work.now))
    await work.write()
    return outcomes


RESERVE_LINES: Final = WriteOperation("reserve_lines", _reserve_lines)
