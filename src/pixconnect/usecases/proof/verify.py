"""Proves the books: runs every rule against the tables, by slices of holders, and reports violations.

Work in progress may look wrong: a statement reads as of one moment, but a rail or the feed reports later. So a finding is
checked again after a while, and counts only if it persists. A stopped whole run continues after its last slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.money.rail import Rail, RailUnavailable
from pixconnect.domain.proof.chain import ChainHead
from pixconnect.domain.proof.rule import Extent, Finding, Judgement, Rule
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection
from pixconnect.store.proof import chain as chain_store
from pixconnect.store.proof import look as look_store
from pixconnect.store.proof import run as run_store
from pixconnect.store.proof.institutions import CLOSED_DAYS
from pixconnect.store.proof.look import HOLDER_ID_MAX, Answer, HolderRange, NotReadableError
from pixconnect.store.proof.rules import RULES
from pixconnect.store.proof.run import Run
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.proof.account import judge_accounts
from pixconnect.usecases.proof.rail import APART, compare_with_rail
from pixconnect.usecases.proof.reading import BookReading
from pixconnect.writing.service_time import service_now

ENTRIES_IN_SLICE: Final = 200_000
OVERLAP: Final = timedelta(hours=1)
"""A run over changes begins so long before the reading of the last one: transactions may have been open then."""
FINDINGS_MAX: Final = 100_000


Unreadable = dict[str, str]
"""Rules that the reader cannot run, and why: a column added by hand is granted to no role, and a table may be gone."""

Progress = Callable[[int, int], None]
"""Called after each slice with the number of holders checked, and of findings so far."""


class BookReader(Struct, frozen=True, kw_only=True):
    """What looks at the books, by a role that may only read them."""

    connection: Connection
    """To the primary, where a run keeps how far it is and what it has found."""
    standby: Connection | None = None
    """Where holders' books are read; ``None`` reads all of them at the primary."""
    standby_age_max_s: float = 0
    clock: Clock
    operator: str
    rail: Rail | None = None
    """``None`` where there is none that can be asked for all that has settled."""
    why_no_rail: str = "there is no rail whose statement can be asked for here"


class ProofRequest(Struct, frozen=True, kw_only=True):
    """The scope of a proof."""

    extent: Extent = "changes"
    rules: Sequence[str] = ()
    """The names of those that are asked; empty is all."""
    again_after_s: float = 60
    """How long after something was found it is looked at again."""
    heads: Sequence[ChainHead] = ()
    """Of chains, as they were kept elsewhere."""


class Verification(Struct, frozen=True, kw_only=True):
    """What a run has proved, and what it has not."""

    judgements: Sequence[Judgement]
    findings: Sequence[Finding]
    unreadable_count: int
    """Rules that the reader could not ask, though there is what they compare."""
    holders_count: int
    unchained_count: int | None
    """Entries that wait to be chained; ``None`` where they cannot be read."""
    unchained_audit_count: int | None
    """Rows of the audit that do."""
    waiting_cluster: str | None
    """The cluster whose commits wait for a standby; ``None`` where they wait for none."""


class ShownRun(Struct, frozen=True, kw_only=True):
    """A run as people are shown it: what it found, each with its rule where there still is that."""

    run: Run
    findings: Sequence[tuple[Finding, Rule | None]]


async def list_runs(context: Context, runs_max: int, findings_max: int) -> Sequence[ShownRun]:
    """The last runs, the newest first, each with so many of its findings at most."""
    by_name = {rule.name: rule for rule in RULES}
    shown = list[ShownRun]()
    for run in await run_store.list_newest(context.pool, runs_max):
        found = await run_store.list_findings(context.pool, run.id, "there", findings_max)
        shown.append(ShownRun(run=run, findings=[(each, by_name.get(each.rule)) for each in found]))
    return shown


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
    now = await _read_now(reader)
    run = await run_store.find_stopped(connection, request.extent, now) if has_all else None
    if run is None:
        run = await run_store.begin(connection, request.extent, reader.operator, now)
    unreadable: Unreadable = dict(await look_store.find_partial(connection, rules))
    try:
        reading = BookReading(connection, reader.standby)
        await reading.follow(run, reader.standby_age_max_s)
        of_holders = [rule for rule in rules if rule.of == "holders"]
        await _look_at_holders(reader, reading, run, of_holders, tell, unreadable, has_all=has_all)
        others = [rule for rule in rules if rule.of in ("installation", "server")]
        await _look(connection, BookReading(connection, None), run, others, None, None, unreadable)
        of_rail = [rule.name for rule in rules if rule.of == "rail"]
        since = (
            await run_store.find_last_checked(connection, of_rail[0]) if of_rail and run.extent == "changes" else None
        )
        found, why_not = await _ask_rail(reader, since and since - OVERLAP, of_rail)
        await run_store.add_seen(connection, run, found)
        of_accounts: list[Judgement] = []
        if any(rule.of == "accounts" for rule in rules):
            of_accounts, found = await _judge_accounts(reader, unreadable)
            await run_store.add_seen(connection, run, found)
        # Without a file there is nothing to compare, and the rule is reported as not checkable.
        heads = request.heads
        await run_store.add_seen(connection, run, await _compare_heads(connection, heads, unreadable) or [])
        why_not = await _look_again(reader, run, request.again_after_s, heads, unreadable) or why_not
    except BaseException:
        # After any stop, the findings are kept, and it continues there.
        with suppress(*DATABASE_FAILED):
            await run_store.stop(connection, run)
        raise
    why_not_of = dict(rail=why_not, heads=None if heads else "no file of heads was given: --heads FILE")
    judgements = [
        await _judge(connection, rule, why_not_of, unreadable.get(rule.name)) for rule in rules if rule.of != "accounts"
    ] + of_accounts
    await run_store.end(connection, run, judgements)
    ended = await run_store.read(connection, run.id)
    findings = await run_store.list_findings(connection, run.id, "there", FINDINGS_MAX)
    return Verification(
        judgements=judgements,
        findings=findings,
        unreadable_count=len(unreadable),
        holders_count=ended.holders_count,
        unchained_count=await _find(chain_store.count_unchained(connection)),
        unchained_audit_count=await _find(chain_store.count_unchained_audit(connection)),
        waiting_cluster=await _find(installation_store.find_waiting_cluster(connection)),
    )


def choose_rules(request: ProofRequest) -> Sequence[Rule]:
    by_name = {rule.name: rule for rule in RULES}
    unknown = [name for name in request.rules if name not in by_name]
    if unknown:
        raise errors.BadRequest(f"rule: there is no rule {unknown[0]}")
    if request.rules:
        return [by_name[name] for name in request.rules]
    return [rule for rule in RULES if request.extent == "whole" or not rule.is_of_whole_runs]


async def _find(asked: Awaitable[Answer]) -> Answer | None:
    """Await an auxiliary query; ``None`` if a table that it reads is missing, which a rule reports."""
    try:
        return await look_store.read(asked)
    except NotReadableError:
        return None


async def _read_now(reader: BookReader) -> datetime:
    return await _find(service_now(reader.clock, reader.connection)) or reader.clock.real_now()


async def _look_at_holders(
    reader: BookReader,
    reading: BookReading,
    run: Run,
    rules: Sequence[Rule],
    tell: Progress,
    unreadable: Unreadable,
    *,
    has_all: bool,
) -> None:
    connection = reader.connection
    holders_count, found_count = run.holders_count, 0
    # A run that goes on behind the last holder asks once more all the same: which rules it may not ask is not kept.
    rest = HolderRange(first_id=run.last_holder_id + 1, last_id=HOLDER_ID_MAX, holders_count=0)
    for part in await _find(look_store.list_slices(connection, run.last_holder_id, ENTRIES_IN_SLICE)) or [rest]:
        since = await _find(run_store.find_read_until(connection, part)) if run.extent == "changes" else None
        # A future instant was never read: a clock was set back, or the checkpoint was written by hand.
        since = None if since is None or since > run.read_until else since
        found_count += await _look(connection, reading, run, rules, part, since and since - OVERLAP, unreadable)
        # Unchecked slices have no checkpoint.
        await run_store.note_slice(connection, run, part, has_all_rules=has_all and not unreadable)
        holders_count += part.holders_count
        tell(holders_count, found_count)


async def _look(
    connection: Connection,
    reading: BookReading,
    run: Run,
    rules: Sequence[Rule],
    part: HolderRange | None,
    since: datetime | None,
    unreadable: Unreadable,
) -> int:
    found = list[Finding]()
    for rule in rules:
        try:
            found += await reading.ask(rule, part, since)
        except NotReadableError as error:
            unreadable[rule.name] = _explain(error)
    await run_store.add_seen(connection, run, found)
    return len(found)


def _explain(error: NotReadableError) -> str:
    return f"who verifies cannot read what it compares: {error}"


async def _ask_rail(
    reader: BookReader, since: datetime | None, rules: Collection[str]
) -> tuple[Sequence[Finding], str | None]:
    """What breaks the rules of the rail, or why it could not be looked at."""
    if reader.rail is None:
        return [], reader.why_no_rail
    try:
        return await look_store.read(compare_with_rail(reader.connection, reader.rail, since, rules)), None
    except NotReadableError as error:
        return [], _explain(error)
    except RailUnavailable as error:
        return [], f"the rail does not answer: {error}"


async def _judge_accounts(reader: BookReader, unreadable: Unreadable) -> tuple[list[Judgement], list[Finding]]:
    try:
        return await look_store.read(judge_accounts(reader.connection, await _read_now(reader)))
    except NotReadableError as error:
        reason = unreadable[CLOSED_DAYS.name] = _explain(error)
        return [Judgement(rule=CLOSED_DAYS.name, verdict="not_checkable", reason=reason)], []


async def _compare_heads(
    connection: Connection, heads: Sequence[ChainHead], unreadable: Unreadable
) -> Sequence[Finding] | None:
    """``None`` where they could not be compared."""
    try:
        return await look_store.read(chain_store.compare_heads(connection, heads))
    except NotReadableError as error:
        unreadable[chain_store.KEPT_HEADS.name] = _explain(error)
        return None


async def _judge(
    connection: Connection, rule: Rule, why_not_of: Mapping[str, str | None], unreadable: str | None
) -> Judgement:
    reason = why_not_of[rule.of] if rule.of in why_not_of else await look_store.find_why_not(connection, rule)
    reason = unreadable or reason
    return Judgement(rule=rule.name, verdict="checked" if reason is None else "not_checkable", reason=reason)


async def _look_again(
    reader: BookReader, run: Run, again_after_s: float, heads: Sequence[ChainHead], unreadable: Unreadable
) -> str | None:
    """Check the findings once more, a while later; those gone by then were work in progress.

    Returns why the rail could not be queried again: its findings stay unjudged.
    """
    connection = reader.connection
    seen_since = await run_store.find_seen_since(connection, run)
    if seen_since is None:
        return None
    await asyncio.sleep(max(0.0, again_after_s - seen_since.total_seconds()))
    by_name = {rule.name: rule for rule in RULES}
    seen = await run_store.list_findings(connection, run.id, "seen")
    beside = [each for each in seen if by_name[each.rule].of in ("rail", "accounts", "heads")]
    for rule, part in _parts_of([each for each in seen if each not in beside], by_name):
        try:
            found = await look_store.ask(connection, rule, part, None)
        except NotReadableError as error:
            # The findings stay unjudged: neither confirmed nor gone.
            unreadable[rule.name] = _explain(error)
            continue
        of_part = [each for each in seen if each.rule == rule.name and part in (None, _part_of(each))]
        await _judge_seen(connection, run, of_part, found)
    if of_accounts := [each for each in beside if by_name[each.rule].of == "accounts"]:
        _, found = await _judge_accounts(reader, unreadable)
        if CLOSED_DAYS.name not in unreadable:
            await _judge_seen(connection, run, of_accounts, found)
    if of_heads := [each for each in beside if by_name[each.rule].of == "heads"]:
        compared = await _compare_heads(connection, heads, unreadable)
        if compared is not None:
            await _judge_seen(connection, run, of_heads, compared)
    of_rail = [each for each in beside if by_name[each.rule].of == "rail"]
    if not of_rail:
        return None
    since = min((each.since for each in of_rail if each.since is not None), default=None)
    found, why_not = await _ask_rail(reader, since and since - APART, {each.rule for each in of_rail})
    if why_not is None:
        await _judge_seen(connection, run, of_rail, found)
    return why_not


def _parts_of(seen: Sequence[Finding], by_name: Mapping[str, Rule]) -> list[tuple[Rule, HolderRange | None]]:
    """The checks to repeat, each once: for a rule of holders only those whose books break it."""
    asked = {(each.rule, _part_of(each) if by_name[each.rule].of == "holders" else None) for each in seen}
    return [(by_name[name], part) for name, part in sorted(asked, key=str)]


def _part_of(finding: Finding) -> HolderRange | None:
    holder_id = finding.holder_id
    return None if holder_id is None else HolderRange(first_id=holder_id, last_id=holder_id, holders_count=1)


async def _judge_seen(
    connection: Connection, run: Run, seen: Sequence[Finding], found_again: Sequence[Finding]
) -> None:
    there = {each.name for each in found_again}
    for each in seen:
        await run_store.judge(connection, run, each, "there" if each.name in there else "gone")
