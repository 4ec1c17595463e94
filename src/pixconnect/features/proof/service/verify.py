"""Proves the books: runs every rule against the tables, by slices of holders, and reports violations.

Work in progress may look wrong: a statement reads one moment, but a rail or the feed reports later. So a finding is checked
again after a while, and counts only if it persists. A stopped whole run continues after its last slice.

Also chains entries and the audit by hash after their commit, shows chains, and logs their heads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, get_args

import msgspec
import structlog
from msgspec import Struct, structs

from pixconnect.doors.worker.parts import Chore, Gauge, HealthCheck, Meter, age_s
from pixconnect.features.proof.rules import HEADS_TOLD, ChainedEntry, ChainHead
from pixconnect.features.proof.service.rule_group import BookReader, Look, Progress, RuleGroup, find, group_rules, read_now
from pixconnect.features.proof.tables import chain as chain_store
from pixconnect.features.proof.tables import look as look_store
from pixconnect.features.proof.tables import run as run_store
from pixconnect.features.proof.tables.charges import CHARGES, TOTALS
from pixconnect.features.proof.tables.events import EVENTS
from pixconnect.features.proof.tables.ledger import LEDGER, POSTINGS
from pixconnect.features.proof.tables.orders import ORDERS, RETURNED
from pixconnect.features.proof.tables.reports import RAIL, REPORTS
from pixconnect.features.proof.tables.run import Run
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.proof import Extent, Finding, Judgement, Rule, RulePart, Subject
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.pool import Connection

_KERNEL: Final = (*LEDGER, *POSTINGS, *ORDERS, *RETURNED, *CHARGES, *TOTALS, *EVENTS, *REPORTS, *RAIL)
_PARTS: Final = gather("rule_parts", RulePart)


def _with_parts(rule: Rule) -> Rule:
    if "{parts}" not in rule.broken:
        return rule
    added = "".join(f" union all {part.selects}" for part in _PARTS if part.rule == rule.name)
    return structs.replace(rule, broken=rule.broken.replace("{parts}", added))


# The tables first, and then other servers, which take longer.
RULES: Final = tuple(
    sorted(map(_with_parts, (*_KERNEL, *gather("rules", Rule))), key=lambda rule: get_args(Subject).index(rule.of))
)

FINDINGS_MAX: Final = 100_000
CHAINED_MAX: Final = 5_000
AUDIT_CHAINED_MAX: Final = 1_000  # audit rows chained in one transaction: each is a separate link
REST_TIMES: Final = 2  # rows from before an upgrade are chained with pauses of this many times a batch's duration
REST: Final = timedelta(minutes=1)
"""Rows are chained this long after they are permanently visible: longer than any batch waits that has taken its ids already."""

_log = structlog.get_logger(__name__)


class ProofRequest(Struct, frozen=True, kw_only=True):
    extent: Extent = "changes"
    rules: Sequence[str] = ()  # the names of the checked rules; empty is all
    again_after_s: float = 60  # how long after a finding it is checked again
    heads: Sequence[ChainHead] = ()


class Verification(Struct, frozen=True, kw_only=True):
    judgements: Sequence[Judgement]
    findings: Sequence[Finding]
    unreadable_count: int  # rules that the reader could not check, though their data exists
    holders_count: int
    unchained_count: int | None  # entries that wait to be chained; ``None`` if they are unreadable
    unchained_audit_count: int | None
    waiting_cluster: str | None  # the cluster whose commits wait for a standby; ``None`` if they wait for none


class ShownRun(Struct, frozen=True, kw_only=True):
    """A run for people: its findings, each with its rule if that still exists."""

    run: Run
    findings: Sequence[tuple[Finding, Rule | None]]


async def list_runs(context: Context, runs_max: int, findings_max: int) -> Sequence[ShownRun]:
    """List the last runs, newest first, each with a maximum of findings."""
    by_name = {rule.name: rule for rule in RULES}
    shown = list[ShownRun]()
    for run in await run_store.list_newest(context.pool, runs_max):
        found = await run_store.list_findings(context.pool, run.id, "there", findings_max)
        shown.append(ShownRun(run=run, findings=[(each, by_name.get(each.rule)) for each in found]))
    return shown


async def verify(reader: BookReader, request: ProofRequest, report_progress: Progress) -> Verification:
    """Run the proof once; raises ``BadRequest`` if a rule does not exist."""
    # Refused before any query.
    rules = choose_rules(request)
    connection = reader.connection
    # Rules by name are checked on everything, and leave no checkpoint: the others were not checked.
    has_all = not request.rules
    now = await read_now(reader)
    run = await run_store.find_stopped(connection, request.extent, now, look_store.HOLDER_ID_MAX) if has_all else None
    if run is None:
        run = await run_store.begin(connection, request.extent, reader.operator, now)
    unreadable = dict(await look_store.find_partial(connection, rules))
    look = Look(
        reader=reader, run=run, report_progress=report_progress, heads=request.heads, has_all=has_all, unreadable=unreadable
    )
    groups = group_rules(look, rules)
    try:
        for group in groups:
            await group.look()
        await _look_again(look, groups, request.again_after_s)
    except BaseException:
        # After any stop, the findings are stored, and it continues there.
        with suppress(*DATABASE_FAILED):
            await run_store.stop(connection, run.id)
        raise
    judgements = [judgement for group in groups for judgement in await group.judge()]
    # In the order of the rules; those of accounts have one for each account.
    place = {rule.name: (rule.of == "accounts", index) for index, rule in enumerate(rules)}
    judgements.sort(key=lambda judgement: place[judgement.rule])
    ended = await run_store.end(connection, run, judgements)
    findings = await run_store.list_findings(connection, run.id, "there", FINDINGS_MAX)
    return Verification(
        judgements=judgements,
        findings=findings,
        unreadable_count=len(unreadable),
        holders_count=ended.holders_count,
        unchained_count=await find(chain_store.count_unchained(connection)),
        unchained_audit_count=await find(chain_store.count_unchained_audit(connection)),
        waiting_cluster=await find(installation_store.find_waiting_cluster(connection)),
    )


def choose_rules(request: ProofRequest) -> Sequence[Rule]:
    by_name = {rule.name: rule for rule in RULES}
    if unknown := [name for name in request.rules if name not in by_name]:
        raise errors.BadRequest(f"rule: there is no rule {unknown[0]}")
    if request.rules:
        return [by_name[name] for name in request.rules]
    return [rule for rule in RULES if request.extent == "whole" or not rule.is_of_whole_runs]


async def _look_again(look: Look, groups: Sequence[RuleGroup], again_after_s: float) -> None:
    """Check the findings once more, a while later."""
    seen_since = await run_store.find_seen_since(look.connection, look.run.id)
    if seen_since is None:
        return
    await asyncio.sleep(max(0.0, again_after_s - seen_since.total_seconds()))
    subject_of = {rule.name: rule.of for rule in RULES}
    seen = await run_store.list_findings(look.connection, look.run.id, "seen")
    for group in groups:
        if of_group := [each for each in seen if subject_of[each.rule] in group.subjects]:
            await group.look_again(of_group)


async def chain_entries(context: Context, chained_max: int = CHAINED_MAX, rest: timedelta = REST) -> int:
    """Chain entries of all holders, oldest first; return how many there were."""
    # Belongs to no holder, so it takes its turn beside all holders.
    with on_behalf_of_all():
        return await chain_store.chain_entries(context.pool, chained_max, rest)


async def chain_audit(context: Context, chained_max: int = AUDIT_CHAINED_MAX) -> int:
    """Chain audit rows, oldest first; return how many there were."""
    with on_behalf_of_all():
        return await chain_store.chain_audit(context.pool, chained_max)


async def list_heads(connection: Connection) -> list[ChainHead]:
    """List the last head of each chain, to be stored out of reach of everyone who writes the database."""
    return await chain_store.list_heads(connection) + await chain_store.list_named_heads(connection)


async def log_heads(context: Context) -> None:
    """Log the heads of all chains in one line: the database's owner cannot change logs elsewhere."""
    with on_behalf_of_all():
        async with context.pool.acquire() as connection:
            heads = await chain_store.list_named_heads(connection)
    _log.info(HEADS_TOLD, heads=[msgspec.to_builtins(head) for head in heads])


async def show_entry(connection: Connection, entry_id: int, holder_id: int) -> ChainedEntry:
    """Return an entry with all inputs of its link in the chain; raises ``NotFound`` if its holder's chain lacks it yet."""
    found = await chain_store.find_chained(connection, entry_id, holder_id)
    return errors.found(found, f"entry: the chain of holder {holder_id} has no entry {entry_id}, or not yet")


async def _chain(context: Context, chain: Callable[[Context], Awaitable[int]], count_max: int) -> float | None:
    began_s = context.clock.monotonic_s()
    # A full batch means that there are more, as after an upgrade: other work goes on between batches.
    if await chain(context) < count_max:
        return None
    return REST_TIMES * (context.clock.monotonic_s() - began_s)


async def _log_heads_of_live_mode(context: Context) -> None:
    # A sandbox's history proves nothing to others, and its terminal is for people.
    if not context.policy.is_sandbox:
        await log_heads(context)


class _Runs(Struct, frozen=True, kw_only=True):
    broken: Mapping[str, int]
    ages_s: Mapping[str, float]  # empty without a run
    took_s: Mapping[str, float]


async def _look_at_runs(context: Context, _now: datetime) -> _Runs:
    runs = {extent: await run_store.find_last_ended(context.pool, extent) for extent in get_args(Extent)}
    ended = [(extent, run.began_at, run.ended_at) for extent, run in runs.items() if run is not None and run.ended_at]
    real_now = context.clock.real_now()
    return _Runs(
        broken=await run_store.count_broken(context.pool),
        ages_s={extent: age_s(ended_at, real_now) for extent, _, ended_at in ended},
        took_s={extent: age_s(began_at, ended_at) for extent, began_at, ended_at in ended},
    )


# fmt: off
METERS: Final = (
    Meter[_Runs](look=_look_at_runs, gauges=(
        Gauge("pixconnect_verify_broken", ("rule",),
            "What `pixconnect verify` found wrong when it last looked at everything, and at changes since, by rule; the health "
            "check uses it.",
            lambda runs: runs.broken),
        Gauge("pixconnect_verify_age_seconds", ("extent",),
            "How long ago the last run of `pixconnect verify` over everything (whole), or over changes, has ended.",
            lambda runs: runs.ages_s),
        Gauge("pixconnect_verify_seconds", ("extent",),
            "How long that run took.",
            lambda runs: runs.took_s),
    )),
)
# fmt: on


async def check_books(context: Context) -> None:
    """Raise ``ServiceUnavailable`` if anything is known to be wrong in the books."""
    if broken := await run_store.count_broken(context.pool):
        raise errors.ServiceUnavailable(
            f"`pixconnect verify` has found {sum(broken.values())} things wrong in the books, by {len(broken)} rules: run it "
            "with --whole, and read what each may mean and what to do"
        )


CHECKS: Final = (HealthCheck("books", check_books),)
CHORES: Final = (
    Chore(name="chain", run=lambda context: _chain(context, chain_entries, CHAINED_MAX), every_s=20.0),
    Chore(name="audit", run=lambda context: _chain(context, chain_audit, AUDIT_CHAINED_MAX), every_s=20.0),
    # Also when a worker starts: one that is started each night would never log them otherwise.
    Chore(name="heads", run=_log_heads_of_live_mode, every_s=86_400.0),
)
