"""Groups of rules, each with its own way to check the books, to check again, and to judge."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

import structlog
from msgspec import Struct

from pixconnect.features.proof.rules import ChainHead
from pixconnect.features.proof.tables import chain as chain_store
from pixconnect.features.proof.tables import look as look_store
from pixconnect.features.proof.tables import reports as rail_store
from pixconnect.features.proof.tables import run as run_store
from pixconnect.features.proof.tables.look import HOLDER_ID_MAX, Answer, HolderRange, NotReadableError
from pixconnect.features.proof.tables.run import Run
from pixconnect.kernel.rules.proof import Finding, Judgement, Rule, Subject
from pixconnect.kernel.rules.rail import Rail, RailUnavailable, SettledItem
from pixconnect.kernel.tables.clock import service_now
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection

ENTRIES_IN_SLICE: Final = 200_000
OVERLAP: Final = timedelta(hours=1)
"""How long before the last reading a run over changes begins: transactions may have been open then."""
LOOK_EVERY_S: Final = 0.2
_log = structlog.get_logger(__name__)

Progress = Callable[[int, int], None]  # called after each slice with the number of checked holders, and of findings so far


class BookReader(Struct, frozen=True, kw_only=True):
    """Reads the books, by a read-only role."""

    connection: Connection  # to the primary, where a run stores its progress and findings
    standby: Connection | None = None  # the standby for holders' books; ``None`` reads all of them at the primary
    standby_age_max_s: float = 0
    clock: Clock
    operator: str
    rail: Rail | None = None  # ``None`` if none can list all its settlements
    why_no_rail: str = "there is no rail whose statement can be asked for here"


class Look(Struct, kw_only=True):
    reader: BookReader
    run: Run
    report_progress: Progress
    heads: Sequence[ChainHead]
    has_all: bool  # whether every rule is checked: only then slices get checkpoints
    # Rules that the reader cannot check, and why: a column added by hand is readable to no role, and a table may be gone.
    unreadable: dict[str, str]

    @property
    def connection(self) -> Connection:
        return self.reader.connection

    async def judge_seen(self, seen: Sequence[Finding], found_again: Sequence[Finding]) -> None:
        there = {each.name for each in found_again}
        for each in seen:
            state = "there" if each.name in there else "gone"
            await run_store.judge(self.connection, self.run.id, each.rule, each.holder_id, each.ids, state)


class BookReading:
    """Checks rules about holders for one run: at a standby at least as new as the run, or else at the primary.

    A standby with the run's latest row has all earlier rows, so its findings are complete. They are checked again at the
    primary, and count only if they persist.
    """

    def __init__(self, primary: Connection, standby: Connection | None) -> None:
        self._primary = primary
        self._standby = standby

    async def follow(self, run: Run, within_s: float) -> None:
        """Wait until the standby has the run's last write; a slower one is not used."""
        if self._standby is None:
            return
        noted_at = await run_store.read_seen_at(self._primary, run.id)
        try:
            async with asyncio.timeout(within_s):
                while not await run_store.has_seen(self._standby, run.id, noted_at):  # noqa: ASYNC110  there is no notification
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            self._leave(f"after {within_s:.0f} s it does not have the beginning of this run")
        except DATABASE_FAILED as error:
            self._leave(f"it gives no answer: {type(error).__name__}")

    async def ask(self, rule: Rule, part: HolderRange | None, since: datetime | None) -> list[Finding]:
        """As ``look.ask``, at either server."""
        if self._standby is not None:
            try:
                return await look_store.ask(self._standby, rule, part, since)
            except DATABASE_FAILED as error:
                # A standby cancels long reads first: the rest of the run would meet the same.
                self._leave(f"it gives no answer: {type(error).__name__}")
        return await look_store.ask(self._primary, rule, part, since)

    def _leave(self, reason: str) -> None:
        self._standby = None
        _log.warning("the standby is not read from, and the primary instead", reason=reason)


class RuleGroup:
    """Rules about the installation and its server: each is checked once, at the primary."""

    subjects: ClassVar[Sequence[Subject]] = ("installation", "server")

    def __init__(self, look: Look, rules: Sequence[Rule]) -> None:
        self._look = look
        self.rules = rules
        self._why_not: str | None = None  # why none of the group could be checked

    async def look(self) -> None:
        await self._ask(BookReading(self._look.connection, None), None, None)

    async def look_again(self, seen: Sequence[Finding]) -> None:
        """Check findings once more: those gone by now were work in progress. Unreadable ones stay unjudged."""
        by_name = {rule.name: rule for rule in self.rules}
        for name, part in sorted({(each.rule, self._part_of(each)) for each in seen}, key=str):
            try:
                found = await look_store.ask(self._look.connection, by_name[name], part, None)
            except NotReadableError as error:
                self._note(by_name[name], error)
                continue
            of_part = [each for each in seen if each.rule == name and part in (None, self._part_of(each))]
            await self._look.judge_seen(of_part, found)

    async def judge(self) -> list[Judgement]:
        judgements: list[Judgement] = []
        for rule in self.rules:
            reason = self._look.unreadable.get(rule.name) or self._why_not
            if reason is None and rule.why_not is not None:
                reason = await self._look.connection.fetchval(rule.why_not)
            verdict = "checked" if reason is None else "not_checkable"
            judgements.append(Judgement(rule=rule.name, verdict=verdict, reason=reason))
        return judgements

    async def _ask(self, reading: BookReading, part: HolderRange | None, since: datetime | None) -> int:
        found = list[Finding]()
        for rule in self.rules:
            try:
                found += await reading.ask(rule, part, since)
            except NotReadableError as error:
                self._note(rule, error)
        await run_store.add_seen(self._look.connection, self._look.run, found)
        return len(found)

    def _part_of(self, finding: Finding) -> HolderRange | None:
        del finding
        return None

    def _note(self, rule: Rule, error: NotReadableError) -> None:
        self._look.unreadable[rule.name] = explain(error)


class OfHolders(RuleGroup):
    """Checked slice by slice of holders, at the standby while it keeps up."""

    subjects = ("holders",)

    async def look(self) -> None:
        look, run, connection = self._look, self._look.run, self._look.connection
        reading = BookReading(connection, look.reader.standby)
        await reading.follow(run, look.reader.standby_age_max_s)
        holders_count, found_count = run.holders_count, 0
        # A run that continues after the last holder checks once more all the same: unreadable rules are not stored.
        rest = HolderRange(first_id=run.last_holder_id + 1, last_id=HOLDER_ID_MAX, holders_count=0)
        for part in await find(look_store.list_slices(connection, run.last_holder_id, ENTRIES_IN_SLICE)) or [rest]:
            since = None
            if run.extent == "changes":
                since = await find(run_store.find_read_until(connection, part.first_id, part.last_id))
            # A future instant was never read: a clock was set back, or the checkpoint was written by hand.
            since = None if since is None or since > run.read_until else since
            found_count += await self._ask(reading, part, since and since - OVERLAP)
            # Unchecked slices have no checkpoint.
            await run_store.note_slice(connection, run, part, has_all_rules=look.has_all and not look.unreadable)
            holders_count += part.holders_count
            look.report_progress(holders_count, found_count)

    def _part_of(self, finding: Finding) -> HolderRange | None:
        """Return the holder whose books break the rule."""
        holder_id = finding.holder_id
        return None if holder_id is None else HolderRange(first_id=holder_id, last_id=holder_id, holders_count=1)


class ComparedGroup(RuleGroup):
    """Rules that Python compares, all at once."""

    async def look(self) -> None:
        found = await self._compare(None)
        await run_store.add_seen(self._look.connection, self._look.run, found or [])

    async def look_again(self, seen: Sequence[Finding]) -> None:
        if (found := await self._compare(seen)) is not None:
            await self._look.judge_seen(seen, found)

    async def _compare(self, seen: Sequence[Finding] | None) -> Sequence[Finding] | None:
        """Return violations of the rules, or of those ``seen`` the persisting ones; ``None`` if they could not be checked."""
        raise NotImplementedError


class OfRail(ComparedGroup):
    subjects = ("rail",)

    async def _compare(self, seen: Sequence[Finding] | None) -> Sequence[Finding] | None:
        reader, run = self._look.reader, self._look.run
        if reader.rail is None:
            self._why_not = reader.why_no_rail
            return None
        if seen is not None:
            since = min((each.since for each in seen if each.since is not None), default=None)
            since, names = since and since - APART, {each.rule for each in seen}
        else:
            names = {rule.name for rule in self.rules}
            is_whole = run.extent != "changes"
            last = None if is_whole else await run_store.find_last_checked(reader.connection, self.rules[0].name)
            since = last and last - OVERLAP
        try:
            return await look_store.read(compare_with_rail(reader.connection, reader.rail, since, names))
        except NotReadableError as error:
            self._why_not = explain(error)
        except RailUnavailable as error:
            self._why_not = f"the rail does not answer: {error}"
        return None


class OfAccounts(ComparedGroup):
    subjects = ("accounts",)

    def __init__(self, look: Look, rules: Sequence[Rule]) -> None:
        super().__init__(look, rules)
        self._judgements: list[Judgement] | None = None  # one for each account, from the first check

    async def judge(self) -> list[Judgement]:
        return await super().judge() if self._judgements is None else self._judgements

    async def _compare(self, seen: Sequence[Finding] | None) -> Sequence[Finding] | None:
        judgements, found = list[Judgement](), list[Finding]()
        try:
            now = await read_now(self._look.reader)
            for rule in self.rules:
                judge = errors.require(rule.judge_accounts, rule.name)
                judged, broken = await look_store.read(judge(self._look.connection, now))
                judgements += judged
                found += broken
        except NotReadableError as error:
            for rule in self.rules:
                self._note(rule, error)
            return None
        if seen is None:
            self._judgements = judgements
        return found


class OfHeads(ComparedGroup):
    subjects = ("heads",)

    async def _compare(self, seen: Sequence[Finding] | None) -> Sequence[Finding] | None:
        # Without a file there is nothing to compare, and the rule is reported as not checkable.
        self._why_not = None if self._look.heads else "no file of heads was given: --heads FILE"
        try:
            return await look_store.read(chain_store.compare_heads(self._look.connection, self._look.heads))
        except NotReadableError as error:
            self._note(chain_store.KEPT_HEADS, error)
            return None


_GROUPS: Final = (OfHolders, RuleGroup, OfRail, OfAccounts, OfHeads)


def group_rules(look: Look, rules: Sequence[Rule]) -> list[RuleGroup]:
    """Return the groups with something to check, in order. Holders always have: their slices get checkpoints."""
    groups = [kind(look, [rule for rule in rules if rule.of in kind.subjects]) for kind in _GROUPS]
    return [each for each in groups if each.rules or isinstance(each, OfHolders) or (isinstance(each, OfHeads) and look.heads)]


async def find(asked: Awaitable[Answer]) -> Answer | None:
    """Await an auxiliary query; ``None`` if a table that it reads is missing, which a rule reports."""
    try:
        return await look_store.read(asked)
    except NotReadableError:
        return None


async def read_now(reader: BookReader) -> datetime:
    return await find(service_now(reader.clock, reader.connection)) or reader.clock.real_now()


def explain(error: NotReadableError) -> str:
    return f"who verifies cannot read what it compares: {error}"


ITEMS_AT_ONCE: Final = 100_000
APART: Final = timedelta(hours=1)  # maximum distance of both sides' dates of one item: reports come late, but not that late
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)  # a sandbox whose clock was moved back has items dated days ahead of it


async def compare_with_rail(
    connection: Connection, rail: Rail, since: datetime | None, rules: Collection[str], *, items_at_once: int = ITEMS_AT_ONCE
) -> list[Finding]:
    """Return all violations of rules of ``features/proof/tables/reports.py``, by name; of items since an instant, or all."""
    first = await connection.fetchval("select min(created_at) from holder")
    if first is None:
        return []
    found = list[Finding]()
    if rail_store.ITEMS.name in rules:
        found += await _compare_items(connection, rail, max(first - APART, since) if since else first - APART, items_at_once)
    if rail_store.SUM.name in rules:
        found += await _compare_sums(connection, rail)
    return found


async def _compare_sums(connection: Connection, rail: Rail) -> list[Finding]:
    now = (await rail.position()).as_of
    # After a clock is put back, settlements are dated ahead of it: only the earlier list distinguishes them from those after
    # the position was taken.
    ahead = [item async for page in rail.statement(now, _LATEST) for item in page]
    position = await rail.position()
    recent = position.as_of - APART
    # Facts that we date within the span may be dated before it there.
    theirs = [item async for page in rail.statement(recent - APART, position.as_of) for item in page]
    theirs += [item for item in ahead if item.settled_at >= position.as_of]
    # Facts that either side alone has from ``recent`` on are no difference.
    cents = await rail_store.sum_held(connection, theirs, recent, position.as_of + APART)
    if cents == position.amount_cents:
        return []
    return [Finding(rule=rail_store.SUM.name, ids=("position",), expected=str(position.amount_cents), found=str(cents))]


async def _compare_items(connection: Connection, rail: Rail, begin: datetime, items_at_once: int) -> list[Finding]:
    until = (await rail.position()).as_of
    found, known = list[Finding](), list[SettledItem]()
    # Facts that we date within the span may be dated before or after it there, ahead of a clock that was put back too.
    async for page in rail.statement(begin - APART, _LATEST):
        known += page
        end = min(known[-1].settled_at - APART, until)
        if len(known) >= items_at_once and end > begin:
            found += await rail_store.compare_items(connection, known, begin, end)
            known = [item for item in known if item.settled_at >= end - APART]
            begin = end
    return found + await rail_store.compare_items(connection, known, begin, until)
