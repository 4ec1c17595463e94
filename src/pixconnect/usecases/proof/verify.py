"""Proves the books: asks the tables every rule, slice by slice of holders, and tells what breaks one.

What is under way while we look may look wrong: a statement reads as of one moment, but a rail or the feed tells later. So
what is found is looked at again after a while, and is a finding only if it is still there. A run that was stopped goes on after
its last slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.proof.rule import Extent, Finding, Judgement, Rule
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection
from pixconnect.store.proof import look as look_store
from pixconnect.store.proof import run as run_store
from pixconnect.store.proof.look import HolderRange
from pixconnect.store.proof.rules import RULES
from pixconnect.store.proof.run import Run
from pixconnect.writing.service_time import service_now

ENTRIES_IN_SLICE: Final = 200_000
OVERLAP: Final = timedelta(hours=1)
"""A run over changes begins so long before the reading of the last one: transactions may have been open then."""
FINDINGS_MAX: Final = 100_000


Progress = Callable[[int, int], None]
"""Told after each slice how many holders were looked at, and how much was found so far."""


class BookReader(Struct, frozen=True, kw_only=True):
    """What looks at the books: one connection, whose role may only read them."""

    connection: Connection
    clock: Clock
    operator: str


class ProofRequest(Struct, frozen=True, kw_only=True):
    """What is to be proved."""

    extent: Extent = "changes"
    rules: Sequence[str] = ()
    """The names of those that are asked; empty is all."""
    again_after_s: float = 60
    """How long after something was found it is looked at again."""


class Verification(Struct, frozen=True, kw_only=True):
    """What a run has proved, and what it has not."""

    judgements: Sequence[Judgement]
    findings: Sequence[Finding]
    holders_count: int


async def verify(reader: BookReader, request: ProofRequest, tell: Progress) -> Verification:
    """Look at the books once.

    Raises:
        BadRequest: There is no such rule.
    """
    # Refused before anything is asked of the database.
    rules = choose_rules(request)
    connection = reader.connection
    # Rules by name are asked of everything, and leave no checkpoint: others were not looked at.
    has_all = not request.rules
    run = await run_store.find_stopped(connection, request.extent) if has_all else None
    if run is None:
        now = await service_now(reader.clock, connection)
        run = await run_store.begin(connection, request.extent, reader.operator, now)
    try:
        await _look_at_holders(reader, run, [rule for rule in rules if rule.of == "holders"], tell, has_all=has_all)
        await _look(connection, run, [rule for rule in rules if rule.of == "installation"], None, None)
        await _look_again(reader, run, request.again_after_s)
    except BaseException:
        # Whatever stopped it, what was found is kept, and it goes on there.
        with suppress(*DATABASE_FAILED):
            await run_store.stop(connection, run)
        raise
    judgements = [Judgement(rule=rule.name, verdict="checked") for rule in rules]
    await run_store.end(connection, run, judgements)
    ended = await run_store.read(connection, run.id)
    findings = await run_store.list_findings(connection, run.id, FINDINGS_MAX)
    return Verification(judgements=judgements, findings=findings, holders_count=ended.holders_count)


def choose_rules(request: ProofRequest) -> Sequence[Rule]:
    by_name = {rule.name: rule for rule in RULES}
    unknown = [name for name in request.rules if name not in by_name]
    if unknown:
        raise errors.BadRequest(f"rule: there is no rule {unknown[0]}")
    if request.rules:
        return [by_name[name] for name in request.rules]
    return [rule for rule in RULES if request.extent == "whole" or not rule.is_of_whole_runs]


async def _look_at_holders(
    reader: BookReader, run: Run, rules: Sequence[Rule], tell: Progress, *, has_all: bool
) -> None:
    connection = reader.connection
    holders_count, found_count = run.holders_count, 0
    for part in await look_store.list_slices(connection, run.last_holder_id, ENTRIES_IN_SLICE):
        since = await run_store.find_read_until(connection, part) if run.extent == "changes" else None
        found_count += await _look(connection, run, rules, part, since and since - OVERLAP)
        await run_store.note_slice(connection, run, part, has_all_rules=has_all)
        holders_count += part.holders_count
        tell(holders_count, found_count)


async def _look(
    connection: Connection, run: Run, rules: Sequence[Rule], part: HolderRange | None, since: datetime | None
) -> int:
    found = list[Finding]()
    for rule in rules:
        found += await look_store.ask(connection, rule, part, since)
    await run_store.add_seen(connection, run, found)
    return len(found)


async def _look_again(reader: BookReader, run: Run, again_after_s: float) -> None:
    """Look once more at what was found, a while after it was; what is gone by then was under way."""
    connection = reader.connection
    seen_since = await run_store.find_seen_since(connection, run)
    if seen_since is None:
        return
    await asyncio.sleep(max(0.0, again_after_s - seen_since.total_seconds()))
    by_name = {rule.name: rule for rule in RULES}
    seen = await run_store.list_seen(connection, run)
    for rule_name, holder_id in sorted({(each.rule, each.holder_id) for each in seen}, key=str):
        part = None if holder_id is None else HolderRange(first_id=holder_id, last_id=holder_id, holders_count=1)
        there = {each.name for each in await look_store.ask(connection, by_name[rule_name], part, None)}
        for each in seen:
            if (each.rule, each.holder_id) == (rule_name, holder_id):
                await run_store.judge(connection, run, each, "there" if each.name in there else "gone")
