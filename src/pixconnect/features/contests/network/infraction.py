"""Contests by payers: the sandbox is the holder's institution, which blocks, receives the holder's answer, and decides.

It decides by hand, by rule or by time. The report due at the deadline is stored beside the last report, and remade with each
change: a decision by time writes nothing, as an order's outcome does.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy
from msgspec import Struct, structs

from pixconnect.features.contests.rules.infraction import Judged, OutsideDecision, OutsideInfraction
from pixconnect.features.sandbox.network.outbox import DuePending, NetworkPart, Pending
from pixconnect.features.sandbox.rules import SandboxRefusal
from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules.block_report import (
    Defence,
    DefenceAnswer,
    DefenceRefused,
    DefenceTaken,
    InfractionReport,
    TakenPart,
)

Executor = asyncpg.Pool | asyncpg.Connection | PoolConnectionProxy

_decode = msgspec.json.Decoder(InfractionReport).decode

FIND = """
select number, name, report, sequence, is_open, judged, defence, next_report, due_at, is_due from infraction
where name = any($1::text[]) order by number for update
"""
LIST = """
select number, name, report, sequence, is_open, judged, defence, next_report, due_at, is_due from infraction
where is_open or next_report is not null order by number
"""
SAVE = """
insert into infraction (number, name, report, sequence, is_open, judged, defence, next_report, taken_at, due_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (number) do update set report = excluded.report, sequence = excluded.sequence, is_open = excluded.is_open,
    defence = excluded.defence, next_report = excluded.next_report, taken_at = excluded.taken_at, due_at = excluded.due_at,
    is_due = false
"""
# Returns are among outgoing money: orders without a caller here.
TAKE = """
insert into settlement (id, kind, original_id, amount_cents, taken_at, due_at, is_open)
values ($1, 'refund', $2, $3, $4, $5, false) on conflict (id) do nothing
"""
CALL_OFF = "update settlement set code = 'FF08', is_due = true where id = any($1::text[]) and kind = 'refund' and code is null"
# Returns that other contests may take by time: these alone are neither open nor due.
CONTESTED = """
select amount_cents, coalesce(settled_at, due_at) as settled_at, amount_cents - (
    select coalesce(sum(s.amount_cents), 0) from settlement s
    where s.original_id = a.id and s.code is null and (s.is_open or s.is_due or s.due_at <= $2)
)::bigint as left_cents
from arrival a
where id = $1 and kind = 'credit' and code is null and not is_open
"""
LEFT = """
select amount_cents - (
    select coalesce(sum(s.amount_cents), 0) from settlement s
    where s.original_id = a.id and s.code is null and s.id <> all($2::text[])
)::bigint
from arrival a
where id = $1 and kind = 'credit'
"""


class Contest(Struct, frozen=True, kw_only=True):
    number: int
    name: str
    report: InfractionReport  # the last report sent to the service
    sequence: int
    is_open: bool  # whether it is unacknowledged
    judged: Judged
    defence: str | None = None
    next_report: InfractionReport | None = None
    due_at: datetime | None = None
    is_due: bool = False


class Paid(NamedTuple):
    """A payment that may be contested."""

    amount_cents: int
    settled_at: datetime
    left_cents: int  # the part of the payment that is neither returned nor being returned


def read(row: asyncpg.Record) -> Contest:
    later: str | None = row["next_report"]
    fields: dict[str, Any] = dict(row)
    fields |= {"report": _decode(row["report"]), "next_report": None if later is None else _decode(later)}
    return Contest(**fields)


async def list_unfinished(executor: Executor) -> list[Contest]:
    """List those with a report pending, now or later."""
    return [read(row) for row in await executor.fetch(LIST)]


async def find_paid(executor: Executor, end_to_end_id: str, now: datetime) -> Paid | None:
    row = await executor.fetchrow(CONTESTED, end_to_end_id, now)
    return None if row is None else Paid(*row)


async def find_left(executor: Executor, end_to_end_id: str, contest: Contest | None) -> int:
    """Find the part of a payment that this contest may still return: its own planned return is planned again."""
    planned = set[str]()
    if contest is not None and contest.next_report is not None:
        planned = {part.return_id for part in contest.next_report.taken}
        planned -= {part.return_id for part in contest.report.taken}
    return await executor.fetchval(LEFT, end_to_end_id, list(planned)) or 0


def list_pending(contest: Contest, now: datetime) -> list[DuePending]:
    pending: list[DuePending] = []
    if contest.is_open:
        pending.append((now, Pending(_named(contest.report, contest, 0))))
    if contest.next_report is not None and contest.due_at is not None:
        report = _redate(contest.next_report, contest.due_at)
        pending.append((now if contest.is_due else contest.due_at, Pending(_named(report, contest, 1))))
    return pending


def _named(report: InfractionReport, contest: Contest, ahead: int) -> InfractionReport:
    return structs.replace(report, report_id=f"{contest.name}/{contest.sequence + ahead}")


def _redate(report: InfractionReport, at: datetime) -> InfractionReport:
    taken = tuple(structs.replace(part, settled_at=min(part.settled_at, at)) for part in report.taken)
    return structs.replace(report, reported_at=at, taken=taken)


def catch_up(contest: Contest, now: datetime) -> Contest:
    """Make due reports the last report."""
    if contest.next_report is None or contest.due_at is None or not (contest.is_due or contest.due_at <= now):
        return contest
    return structs.replace(
        contest,
        report=_redate(contest.next_report, contest.due_at),
        sequence=contest.sequence + 1,
        is_open=True,
        next_report=None,
        due_at=None,
    )


def acknowledge(contest: Contest, report_ids: Sequence[str], now: datetime) -> Contest:
    if f"{contest.name}/{contest.sequence + 1}" in report_ids:
        acknowledged = structs.replace(catch_up(structs.replace(contest, is_due=True), now), is_open=False)
        return plan(acknowledged, None, 0)
    return structs.replace(contest, is_open=False) if f"{contest.name}/{contest.sequence}" in report_ids else contest


async def acknowledge_all(pool: asyncpg.Pool, report_ids: Sequence[str], now: datetime) -> list[DuePending]:
    """Record the service's acknowledgements; returns the pending reports of contests whose next report has changed."""
    changed: list[DuePending] = []
    async with pool.acquire() as connection, connection.transaction():
        for row in await connection.fetch(FIND, [report_id.partition("/")[0] for report_id in report_ids]):
            before = read(row)
            after = acknowledge(before, report_ids, now)
            if after != before:
                await save(connection, after, before, now)
            if after.next_report != before.next_report:
                changed += list_pending(after, now)
    return changed


async def list_all_pending(pool: asyncpg.Pool, now: datetime) -> list[DuePending]:
    return [pending for contest in await list_unfinished(pool) for pending in list_pending(contest, now)]


PARTS: Final = (
    NetworkPart(table="infraction", kind=InfractionReport, list_pending=list_all_pending, acknowledge=acknowledge_all),
)


def find_free_funds(asked: OutsideInfraction, contests: Sequence[Contest]) -> int:
    """Return how much of a holder's money no contest holds."""
    account = asked.party.branch, asked.party.account_number
    own = [each for each in contests if (each.report.party.branch, each.report.party.account_number) == account]
    # The service still counts unreported returns as the holder's money.
    taken_cents = sum(part.amount_cents for each in own if each.is_open for part in each.report.taken)
    return max(0, asked.funds_cents - taken_cents - sum(each.report.held_cents for each in own))


def find_free_of(end_to_end_id: str, paid: Paid, contests: Sequence[Contest], now: datetime) -> int:
    """Return how much of a payment no contest holds: all of them together hold it once."""
    own = [catch_up(each, now) for each in contests if each.report.end_to_end_id == end_to_end_id]
    return max(0, paid.left_cents - sum(each.report.held_cents for each in own))


def open_contest(
    asked: OutsideInfraction,
    paid: Paid,
    left_cents: int,
    free_cents: int,
    number: int,
    name: str,
    return_id: str,
    now: datetime,
) -> Contest:
    """Contest the rest of a payment, and hold the free part of it.

    ``left_cents`` is the part that other contests will not take by time either, ``free_cents`` the part that they do not hold,
    and ``return_id`` the name of its return by time.
    """
    if now > paid.settled_at + ARRANGEMENT.find("contest_window", paid.settled_at).duration:
        raise SandboxRefusal("invalid", "end_to_end_id: was paid too long ago to be contested")
    amount_cents = asked.amount_cents or paid.left_cents
    if amount_cents > paid.amount_cents:
        raise SandboxRefusal("invalid", f"amount: the Pix was of {paid.amount_cents} cents")
    if paid.left_cents == 0:
        raise SandboxRefusal("invalid", "end_to_end_id: all of it was given back, and nothing is left to contest")
    if amount_cents > paid.left_cents:
        raise SandboxRefusal("invalid", f"amount: {paid.left_cents} cents of the Pix are not given back yet")
    report = InfractionReport(
        report_id=name,
        name=name,
        party=asked.party,
        end_to_end_id=asked.end_to_end_id,
        amount_cents=amount_cents,
        reason=asked.reason,
        situation=asked.situation,
        words=asked.words,
        state="open",
        opened_at=now,
        respond_by=now + ARRANGEMENT.find("contest_analysis", now).duration,
        wanted_cents=amount_cents,
        held_cents=min(amount_cents, free_cents),
        taken=(),
        reported_at=now,
        until=now + ARRANGEMENT.find("contest_block", now).duration,
    )
    contest = Contest(number=number, name=name, report=report, sequence=1, is_open=True, judged=asked.judged)
    return plan(contest, return_id, left_cents)


def plan(contest: Contest, return_id: str | None, left_cents: int) -> Contest:
    """Plan the next report by time: the decision at the deadline, which takes only what is left, or the end of a block."""
    report = contest.report
    if report.state == "released" or (report.state == "taken" and report.wanted_cents == 0):
        return structs.replace(contest, next_report=None, due_at=None)
    if report.state == "taken":
        due_at = report.reported_at + ARRANGEMENT.find("rest_followed", report.reported_at).duration
        rest = structs.replace(report, wanted_cents=0, held_cents=0, until=None)
        return structs.replace(contest, next_report=_redate(rest, due_at), due_at=due_at)
    due_at = report.respond_by
    takes = contest.judged == "take" or (contest.judged == "by_answer" and report.state == "open")
    if contest.judged == "never":
        takes, due_at = False, report.until or report.respond_by
    later = _release(report, due_at)
    if takes and return_id and left_cents:
        later = _take(report, report.held_cents, left_cents, return_id, due_at, due_at)
    return structs.replace(contest, next_report=later, due_at=due_at)


def _take(
    report: InfractionReport, cents: int, left_cents: int, return_id: str, at: datetime, settled_at: datetime
) -> InfractionReport:
    """Return this much of the contested sum, at most the rest of the payment; the remainder stays claimed."""
    cents = min(cents, left_cents)
    part = (TakenPart(return_id=return_id, amount_cents=cents, settled_at=settled_at),) if cents else ()
    rest_cents = max(0, min(report.wanted_cents, left_cents) - cents)
    return structs.replace(
        report,
        state="taken",
        taken=(*report.taken, *part),
        wanted_cents=rest_cents,
        held_cents=min(rest_cents, max(0, report.held_cents - cents)),
        reported_at=at,
        until=at + ARRANGEMENT.find("rest_followed", at).duration if rest_cents else None,
    )


def _release(report: InfractionReport, at: datetime) -> InfractionReport:
    # It may be decided without a return: releasing the remaining claim decides nothing else.
    return structs.replace(
        report,
        state="taken" if report.state == "taken" else "released",
        wanted_cents=0,
        held_cents=0,
        reported_at=at,
        until=None,
    )


def decide(
    contest: Contest, asked: OutsideDecision, left_cents: int, free_cents: int, return_id: str, next_id: str, now: datetime
) -> Contest:
    """Decide by hand: take or release the held money, or hold more of the claim."""
    report = contest.report
    if report.state == "released" or (report.state == "taken" and report.wanted_cents == 0):
        raise SandboxRefusal("invalid", "id: it is decided, and nothing of it is blocked or wanted any more")
    # Slightly later than the last report, so that it counts.
    at = max(now, report.reported_at + timedelta(microseconds=1))
    cents = report.held_cents if asked.amount_cents is None else asked.amount_cents
    match asked.decision:
        case "take":
            if cents > report.wanted_cents:
                raise SandboxRefusal("invalid", f"amount: {report.wanted_cents} cents are wanted")
            if left_cents == 0 or (asked.amount_cents is not None and cents > left_cents):
                raise SandboxRefusal("invalid", f"amount: {left_cents} cents of the Pix are left to give back")
            # The money leaves now, though the last report may be dated before the clock was moved back.
            decided = _take(report, cents, left_cents, return_id, at, now)
            left_cents -= min(cents, left_cents)
        case "release":
            if asked.amount_cents is None:
                decided = _release(report, at)
            elif cents > report.held_cents:
                raise SandboxRefusal("invalid", f"amount: {report.held_cents} cents are held")
            else:
                decided = structs.replace(report, held_cents=report.held_cents - cents, reported_at=at)
        case "hold":
            free_cents = min(free_cents, report.wanted_cents - report.held_cents)
            if asked.amount_cents is None or cents > free_cents:
                raise SandboxRefusal("invalid", f"amount: {free_cents} cents are wanted and not held yet")
            decided = structs.replace(report, held_cents=report.held_cents + cents, reported_at=at)
    return plan(_set_report(contest, decided), next_id, left_cents)


def _set_report(contest: Contest, report: InfractionReport) -> Contest:
    # The next planned report may have left already: it has the number in between.
    return structs.replace(contest, report=report, sequence=contest.sequence + 2, is_open=True)


def receive_answer(
    contest: Contest | None, defence: Defence, left_cents: int, next_id: str, now: datetime
) -> tuple[Contest | None, DefenceAnswer]:
    if contest is None:
        return None, DefenceRefused(reason="there is no such infraction")
    if contest.defence is not None:
        same = contest.defence == defence.text
        return None, DefenceTaken() if same else DefenceRefused(reason="it was answered before, in other words")
    if contest.report.state in {"taken", "released"} or now >= contest.report.respond_by:
        return None, DefenceRefused(reason="the time to answer is over")
    at = max(now, contest.report.reported_at + timedelta(microseconds=1))
    answered = structs.replace(contest.report, state="answered", reported_at=at)
    received = structs.replace(contest, defence=defence.text)
    return plan(_set_report(received, answered), next_id, left_cents), DefenceTaken()


async def save(executor: Executor, contest: Contest, before: Contest | None, now: datetime) -> None:
    """Write it, with its outgoing money, in one transaction; cancels outgoing money that is no longer planned."""
    later = contest.next_report
    planned = {} if later is None else {part.return_id: part for part in later.taken}
    parts = planned | {part.return_id: part for part in contest.report.taken}
    former = None if before is None else before.next_report
    gone = [part.return_id for part in (() if former is None else former.taken) if part.return_id not in parts]
    if gone:
        await executor.execute(CALL_OFF, gone)
    for part in parts.values():
        original_id = contest.report.end_to_end_id
        await executor.execute(TAKE, part.return_id, original_id, part.amount_cents, now, part.settled_at)
    report = msgspec.json.encode(contest.report).decode()
    next_report = None if later is None else msgspec.json.encode(later).decode()
    state = (contest.sequence, contest.is_open, contest.judged, contest.defence)
    await executor.execute(SAVE, contest.number, contest.name, report, *state, next_report, now, contest.due_at)
