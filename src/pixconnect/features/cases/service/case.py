"""Cases: opened for a difference, ended by themselves without it, and handled by operators until then.

A worker repeatedly checks all present differences; a crash between two checks loses nothing. Facts are recorded where they
always are (a statement, ``institution ask``, a report): the next check finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, get_args

import structlog
from msgspec import Struct, structs

from pixconnect.doors.worker.parts import Chore, Gauge, Meter, age_s, counted
from pixconnect.features.cases import rules
from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.service import case_ending as ending_usecases
from pixconnect.features.cases.service import day_case
from pixconnect.features.cases.service.answer import BalancePoint, PossibleAnswer, list_answers, run_balance
from pixconnect.features.cases.service.pattern import answer_remembered
from pixconnect.features.cases.tables import list_adjustments
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.account import found
from pixconnect.features.institutions.statement_files.statement_file import RecordedFile
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables import statement_file as day_file_store
from pixconnect.features.proof.tables import run as run_store
from pixconnect.features.proof.tables.reports import RAIL
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.before_order import find_holds
from pixconnect.kernel.flows.context import Context, Core, Operator, read_ordered, write_alone
from pixconnect.kernel.flows.kept_report import ReportClosing
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import kept_report as kept_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection

LISTED_MAX: Final = 1000
LOOKED_AT_MAX: Final = 10_000
"""Maximum of reports and findings per check. If there are more, none of their cases ends by itself."""

WAITS_MAX: Final = timedelta(days=1)  # an order delayed for this long becomes a case

_EVER: Final = datetime(1, 1, 2, tzinfo=UTC)
_log = structlog.get_logger(__name__)


class ShownCase(Struct, frozen=True, kw_only=True):
    case: rules.Case
    institution: str | None  # the account's name
    age: timedelta
    notes: Sequence[rules.CaseNote] = ()
    adjustments: Sequence[rules.Adjustment] = ()
    # An operator's pending adjustment, or decision on its order, which another has to confirm.
    waiting: Proposal | None = None
    ending: rules.CaseEnding | None = None  # two operators' decision on its order
    lines: Sequence[RecordedItem] = ()  # of an open day: the institution's waiting lines
    answers: Sequence[PossibleAnswer] = ()
    balances: Sequence[BalancePoint] = ()
    files: Sequence[RecordedFile] = ()  # the day's files, newest first
    reserved_cents: Mapping[str, int] = {}  # the house's reserve for each of these that went out, by its id


async def look_for_cases(context: Context) -> None:
    """Open a case for each difference without one, and end those without a difference."""
    async with context.pool.acquire() as connection:
        accounts = await account_store.list_all(connection)
    await _look_at_reports(context)
    for account in accounts:
        # A closed account's differences are never resolved by reports: its cases wait for operators.
        if account.state != "closed":
            try:
                await _look_at_account(context, account)
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                # A failure at one account does not stop the check of the others.
                _log.warning("cases wait", institution=account.name, reason=type(error).__name__)


async def _look_at_reports(context: Context) -> None:
    async with context.pool.acquire() as connection, connection.transaction():
        if not await case_store.try_lock(connection):
            return
        reports = await kept_store.list_oldest_open(connection, LOOKED_AT_MAX)
        differences = [
            rules.Difference(
                kind="report",
                institution_id=None,
                name=str(report.id),
                amount_cents=day_case.within_bounds(kept_report.find_amount(report) or 0),
                facts=cut(f"{report.kind} {report.name}: {report.reason}: {report.explanation}"),
                since=report.first_seen_at,
            )
            for report in reports
        ]
        await keep_all(connection, "report", differences)


async def look_at_rail(context: Context) -> None:
    """Keep a case for each finding of the proof about the rail."""
    async with context.pool.acquire() as connection, connection.transaction():
        if not await case_store.try_lock(connection):
            return
        names = [rule.name for rule in RAIL]
        findings = await run_store.list_standing(connection, names, LOOKED_AT_MAX)
        differences: list[rules.Difference] = []
        for finding, seen_at in findings:
            what = finding.ids[0].split(" ")[0]
            sign = 1 if what in ("credit", "return", "movement_in", "position") else -1
            difference = rules.Difference(
                kind="rail",
                institution_id=None,
                holder_id=finding.holder_id,
                name=f"{finding.rule}: {', '.join(finding.ids)}"[:255],
                amount_cents=day_case.within_bounds(sign * (int(finding.expected or 0) - int(finding.found or 0))),
                facts=cut(f"the rail says {finding.expected or 'nothing'}, and we say {finding.found or 'nothing'}"),
                since=finding.since or seen_at,
            )
            differences.append(difference)
        await keep_all(connection, "rail", differences)


async def keep_all(connection: Connection, kind: rules.CaseKind, differences: Sequence[rules.Difference]) -> None:
    """Open a case for each difference of the kind without one, and end those without a difference."""
    # A truncated list ends no case: missing ones may still differ.
    is_cut = len(differences) == LOOKED_AT_MAX
    await case_store.keep(connection, () if is_cut else (kind,), None, _EVER, differences)


async def _look_at_account(context: Context, account: InstitutionAccount) -> None:
    # First: a line that a remembered answer covers is no case.
    await answer_remembered(context, account)
    async with context.pool.acquire() as connection:
        span = await day_usecases.find_unmatched(connection, account, context.clock.now())
    async with context.pool.acquire() as connection, connection.transaction():
        if not await case_store.try_lock(connection):
            return
        since = datetime.combine(span.since, time(0), SAO_PAULO)
        kinds: tuple[rules.CaseKind, ...] = () if span.is_cut else ("day",)
        await case_store.keep(connection, kinds, account.id, since, day_case.list_differences(account, span))
        orders, is_all = await ending_usecases.find_differences(context, connection, account)
        await case_store.keep(connection, ("order",) if is_all else (), account.id, _EVER, orders)
        await _look_at_waiting(context, connection, account)
        missing = [day_case.describe_gap(account, gap) for gap in span.gaps]
        if unconfirmed_since := await day_file_store.find_unconfirmed(connection, account.id):
            verb = f"`institution statement {account.name}`"
            missing.append(
                rules.Difference(
                    kind="file",
                    institution_id=account.id,
                    name="files",
                    amount_cents=None,
                    facts=f"no file of {account.name} is read before a person confirms the first: {verb}",
                    since=unconfirmed_since,
                )
            )
        # A gap whose first day begins the compared time is not found any more.
        await case_store.keep(connection, ("file",), account.id, since + timedelta(days=1), missing)


async def _look_at_waiting(context: Context, connection: Connection, account: InstitutionAccount) -> None:
    """List an account's automatic outgoing money that has been delayed for long, with the reason."""
    since = context.clock.real_now() - WAITS_MAX
    waiting = await return_store.list_standing(connection, account.id, since, LOOKED_AT_MAX)
    refunds = await order_store.list_unsent_refunds(connection, account.id, since, LOOKED_AT_MAX)
    holds = await find_holds(connection, (await read_ordered(connection, [order.name for order in refunds])).values())
    found = [
        (f"transfer {one.transfer_id}", one.holder_id, f"is not given back: {one.reason}", one.created_at) for one in waiting
    ]
    found += [
        (f"refund {order.resource_id}", order.holder_id, f"does not leave: {holds[order.name]}", order.ordered_at)
        for order in refunds
        if order.name in holds
    ]
    differences = [
        rules.Difference(
            kind="waits",
            institution_id=account.id,
            holder_id=holder_id,
            name=name,
            amount_cents=None,
            facts=cut(f"{name} {text}"),
            since=since,
        )
        for name, holder_id, text, since in found
    ]
    is_cut = LOOKED_AT_MAX in (len(waiting), len(refunds))
    await case_store.keep(connection, () if is_cut else ("waits",), account.id, _EVER, differences)


def cut(text: str) -> str:
    return kept_report.storable(text, rules.TEXT_LENGTH_MAX)


async def list_cases(
    context: Core,
    *,
    with_ended: bool = False,
    kind: rules.CaseKind | None = None,
    institution: str | None = None,
    facts: str | None = None,
) -> list[ShownCase]:
    """List open cases, or all, the oldest open one first; ``facts`` filters by their known facts.

    Raises:
        BadRequest: The text is empty: an unset variable would match all.
        NotFound: The account does not exist.
    """
    if facts == "":
        raise errors.BadRequest("facts: must not be empty: all of the kind would be taken")
    async with context.pool.acquire() as connection:
        named = {account.id: account.name for account in await account_store.list_all(connection)}
        only = None if institution is None else found(await account_store.find_named(connection, institution), institution)
        cases = await case_store.list_oldest(connection, with_ended, kind, only.id if only else None, facts, LISTED_MAX)
    return [_show(context, case, named) for case in cases]


async def read_case(context: Core, case_id: int) -> ShownCase:
    """Read a case with its notes and adjustments; raises ``NotFound`` for an unknown id."""
    async with context.pool.acquire() as connection:
        case = errors.found(await case_store.find(connection, case_id), f"case: there is none with the id {case_id}")
        notes = await case_store.list_notes(connection, case_id)
        adjustments = await list_adjustments(connection, case_id)
        proposals = await proposal_store.list_waiting(connection, institution_id=case.institution_id)
        endings = await case_store.find_of_cases(connection, [case_id])
        accounts = await account_store.list_all(connection)
        named = {account.id: account.name for account in accounts}
        account = next((one for one in accounts if one.id == case.institution_id), None)
        reserved = dict[str, int]()
        day, lines, answers, files = date.min, list[RecordedItem](), list[PossibleAnswer](), list[RecordedFile]()
        if case.kind == "day" and case.ended_at is None and account is not None:
            day = date.fromisoformat(case.name)
            lines = await day_usecases.list_waiting(connection, account.id, day)
            answers = await list_answers(connection, account, lines)
            reserved = await day_file_store.list_reserved(connection, account.id, [one.item_id for one in lines])
            files = await day_file_store.list_files(connection, account.id, day)
    balances = run_balance(await day_usecases.read_day(context, account, day), lines) if account and lines else []
    # An account has at most one pending proposal, which may be of another case; a lapsed one stays until it is replaced.
    now = context.clock.real_now()
    waiting = next((one for one in proposals if one.contents.get("case_id") == case_id and now < one.lapses_at), None)
    return structs.replace(
        _show(context, case, named),
        notes=notes,
        adjustments=adjustments,
        waiting=waiting,
        ending=endings[0] if endings else None,
        lines=lines,
        answers=answers,
        reserved_cents=reserved,
        balances=balances,
        files=files,
    )


def _show(context: Core, case: rules.Case, named: Mapping[int, str]) -> ShownCase:
    age = (case.ended_at or context.clock.real_now()) - case.opened_at
    return ShownCase(case=case, institution=named.get(case.institution_id or 0), age=max(age, timedelta(0)))


async def note_case(context: Operator, case_id: int, text: str) -> str:
    """Add an operator's note to a case; return the stored note.

    Raises:
        BadRequest: The note is empty or too long.
        NotFound: The case does not exist.
    """
    note = _check_text("note", text)
    async with write_alone(context.pool) as connection:
        if await case_store.find(connection, case_id) is None:
            raise errors.NotFound(f"case: there is none with the id {case_id}")
        await case_store.add_note(connection, case_id, kept_report.storable(context.operator), note)
        await audit.record(context, connection, "case note", f"case {case_id}", after=dict(note=note))
    return note


async def close_cases(context: Operator, case_ids: Sequence[int], reason: str) -> list[ShownCase]:
    """Close cases by one operator's decision, all or none; no money moves. A kept report is closed with its case.

    Raises:
        BadRequest: The reason is empty or too long, no case is given, or one is of an open order.
        NotFound: One of them does not exist, or has ended.
    """
    stored_reason, operator = _check_text("reason", reason), kept_report.storable(context.operator)
    wanted = sorted(set(case_ids))
    if not wanted:
        raise errors.BadRequest("case: none is named, or none of that kind is open")
    async with write_alone(context.pool) as connection:
        before = await case_store.lock(connection, wanted)
        for case_id in wanted:
            if case_id not in before:
                raise errors.NotFound(f"case: there is none with the id {case_id}")
            if before[case_id].ended_at is not None:
                raise errors.NotFound(f"case: {case_id} has ended already")
        await ending_usecases.refuse_open_orders(connection, list(before.values()))
        for case in before.values():
            # In one transaction: otherwise the worker's next check would open the case again.
            if case.kind == "report":
                await kept_store.close(connection, int(case.name), operator, stored_reason)
        await case_store.end(connection, wanted, "closed", operator, stored_reason)
        # Read again, for the instant is the database's.
        ended = await case_store.lock(connection, wanted)
        subject = f"case {wanted[0]}" if len(wanted) == 1 else f"{len(wanted)} cases from {wanted[0]}"
        await audit.record(
            context, connection, "case close", subject, before=dict(ids=wanted), after=dict(ids=wanted, reason=stored_reason)
        )
        named = {account.id: account.name for account in await account_store.list_all(connection)}
    return [_show(context, ended[case_id], named) for case_id in wanted]


def _check_text(field: str, text: str) -> str:
    if not text.strip() or len(text) > rules.TEXT_LENGTH_MAX:
        raise errors.BadRequest(f"{field}: must have 1 to {rules.TEXT_LENGTH_MAX} characters, not all blank")
    return cut(text.strip())


async def count_cases(context: Core) -> int:
    """Count open cases. A kept report, which becomes a case at the worker's next check, is not counted again."""
    found = await case_store.count_open(context.pool)
    return sum(count for kind, (count, _) in found.items() if kind != "report")


CHORES: Final = (
    Chore(name="cases", run=look_for_cases, every_s=60.0),
    Chore(name="rail cases", run=look_at_rail, every_s=60.0),
)
REPORT_CLOSINGS: Final = (ReportClosing(case_store.end_of_report),)


async def _look_at_cases(context: Context, _now: datetime) -> Mapping[str, tuple[int, float]]:
    found, real_now = await case_store.count_open(context.pool), context.clock.real_now()
    ages = {kind: (count, age_s(oldest_at, real_now)) for kind, (count, oldest_at) in found.items()}
    return {kind: ages.get(kind, (0, 0.0)) for kind in get_args(rules.CaseKind)}


# fmt: off
METERS: Final = (
    Meter[Mapping[str, tuple[int, float]]](look=_look_at_cases, gauges=(
        Gauge("pixconnect_cases", ("kind",),
            "Open cases: differences between an institution or the rail and the books; see "
            "`pixconnect case list`.",
            lambda cases: {kind: count for kind, (count, _) in cases.items()}),
        Gauge("pixconnect_case_oldest_open_age_seconds", ("kind",),
            "How long ago the oldest of these was found; 0 if there is none.",
            lambda cases: {kind: oldest_s for kind, (_, oldest_s) in cases.items()}),
    )),
)
# fmt: on


async def _count_apart(context: Context) -> int:
    found = (await case_store.count_open(context.pool)).get("account")
    return found[0] if found else 0


PROBLEMS: Final = (
    counted(
        *("institutions", _count_apart, "account at an institution has", "accounts at institutions have"),
        "another balance there than in the books",
    ),
)
