"""Which cell a report of the network is of: there is one network, and one taker of what it tells, in the home cell.

::

    end of an order ──────── the tag of its name: the home cell's, or asked for there and then everywhere
    payment to a key that
    leads to other cells, or
    did before ───────────── whoever has answered it before, else whoever has the key now
    payment ─────────────┐
    return, contest ─────┼── whoever knows its account, key or original; the home cell is asked first
    movement, block ─────┘
    nobody's ─────────────── the home cell's, which refuses or keeps it; but only if all cells have answered

All cells are asked for what the home cell does not know. What may be of a cell that gives no answer stays unacknowledged, so
the network tells it again: money is refused only when it is surely nobody's, under a lock for which everybody waits who gives
its account to somebody. What a cell has answered once stays its own, whoever gets the account later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from pixconnect.domain.frame import cell, errors
from pixconnect.domain.money import kept_report
from pixconnect.domain.money.block_report import InfractionReport
from pixconnect.domain.money.rail import CreditReport, RejectedReport, Report, ReturnReport, SettledReport
from pixconnect.store.money import transfer as transfer_store
from pixconnect.store.running import name_cell as name_store
from pixconnect.store.running.name_cell import KeyTrace
from pixconnect.usecases.frame.cells import NO_ANSWER, Cells
from pixconnect.usecases.frame.under_way import read_ordered
from pixconnect.usecases.money.credited_holder import find_credited_holder
from pixconnect.usecases.money.incoming import find_recorded
from pixconnect.usecases.money.report import ReportContext, take_reports

Traces = Mapping[str, KeyTrace]
"""By key, of those that lead to other cells, or did."""
Answered = Mapping[int, Collection[str] | None]
"""By cell, the payments that it has answered before of those that may be its own; ``None`` where it gives no answer."""


async def split_reports(cells: Cells, reports: Sequence[Report]) -> tuple[list[Report], list[Report]]:
    """Reports that are the home cell's, and all others; only the home cell is asked."""
    if cells.is_alone:
        return list(reports), []
    traces = await _find_traces(cells, reports)
    judged = [_is_surely_home(cells, report, traces) for report in reports]
    # No task for each end of an order: of these there are most, and nobody needs to be asked.
    asked = await asyncio.gather(
        *(_knows(cells.home, report) for report, is_here in zip(reports, judged, strict=True) if is_here is None)
    )
    answers = iter(asked)
    told = [
        (report, next(answers) if is_here is None else is_here) for report, is_here in zip(reports, judged, strict=True)
    ]
    return [report for report, is_here in told if is_here], [report for report, is_here in told if not is_here]


async def take_reports_of_others(cells: Cells, reports: Sequence[Report]) -> int:
    """Give reports to the cells that know them; answers how many were acknowledged, as ``take_reports`` does.

    Raises:
        RailUnavailable: It will report again, and get the same answers.
    """
    traces, ended = await _find_traces(cells, reports), await _find_orders(cells, reports)
    answered = await _find_answered(cells, reports, traces)
    others = [report for report in reports if _name_of_order(report) not in ended]
    found = await asyncio.gather(*(_find_context(cells, report, traces, answered) for report in others))
    led = [(ended[name], report) for report in reports if (name := _name_of_order(report)) in ended]
    of: dict[int, tuple[ReportContext, list[Report]]] = {}
    for context, report in (*led, *zip(found, others, strict=True)):
        if context is not None:
            of.setdefault(context.policy.cell, (context, []))[1].append(report)
    return sum(await asyncio.gather(*(take_reports(context, own) for context, own in of.values())))


async def _find_traces(cells: Cells, reports: Sequence[Report]) -> Traces:
    keys = {
        report.credit_party.key
        for report in reports
        # What the database cannot hold is nobody's key.
        if isinstance(report, CreditReport) and report.credit_party.key and report.credit_party.key.isprintable()
    }
    return await name_store.find_traces(cells.home.pool, keys) if keys else {}


async def _find_orders(cells: Cells, reports: Sequence[Report]) -> Mapping[str, ReportContext]:
    """The cells of orders that have ended, by their names, of those that are where their names lead.

    That is nearly all, and under load they are many at once: each cell is asked once for all of its own, and for nothing that
    this process has handed over itself.
    """
    led: dict[int, list[str]] = {}
    for report in reports:
        name = _name_of_order(report)
        if name and (number := cell.find_named_cell(name)) is not None:
            led.setdefault(number, []).append(name)
    found = await asyncio.gather(*(_find_ordered(cells, number, names) for number, names in led.items()))
    return {name: context for context, names in found if context is not None for name in names}


async def _find_answered(cells: Cells, reports: Sequence[Report], traces: Traces) -> Answered:
    """Of payments to keys that lead to other cells, or did: what the home cell and those have answered; each is asked once."""
    led: dict[int, list[str]] = {}
    for report in reports:
        if isinstance(report, CreditReport) and (trace := traces.get(report.credit_party.key or "")) is not None:
            for number in (cell.HOME, *trace.former):
                led.setdefault(number, []).append(report.end_to_end_id)
    return dict(await asyncio.gather(*(_read_answered(cells, number, names) for number, names in led.items())))


async def _read_answered(cells: Cells, number: int, names: Sequence[str]) -> tuple[int, Collection[str] | None]:
    try:
        async with cells.at(number).pool.acquire() as connection:
            known, refused = await transfer_store.find_received(connection, names)
    except NO_ANSWER:
        return number, None
    return number, known.keys() | refused.keys()


async def _find_ordered(cells: Cells, number: int, names: list[str]) -> tuple[ReportContext | None, set[str]]:
    """Which of these a cell knows; none where it gives no answer, so that each is looked for like one that leads nowhere."""
    try:
        context = cells.at(number)
        known = set(context.under_way.recall(names))
        others = [name for name in names if name not in known]
        return context, known | (await read_ordered(context.pool, others)).keys()
    except NO_ANSWER:
        return None, set()


def _is_surely_home(cells: Cells, report: Report, traces: Traces) -> bool | None:
    """Whether it is the home cell's; ``None`` where that has to be asked."""
    # What cannot even be read is kept there.
    if kept_report.find_fault(report) is not None:
        return True
    if isinstance(report, CreditReport) and report.credit_party.key in traces:
        return False
    if isinstance(report, SettledReport | RejectedReport):
        return not cells.has_other(cell.find_named_cell(report.id))
    return None


def _name_of_order(report: Report) -> str:
    """Of the order whose end it says; none otherwise."""
    return report.id if isinstance(report, SettledReport | RejectedReport) else ""


async def _find_context(cells: Cells, report: Report, traces: Traces, answered: Answered) -> ReportContext | None:
    """The context of the cell that a report is of; ``None`` if it may be one that gives no answer."""

    async def look(context: ReportContext) -> ReportContext:
        if not await _knows(context, report):
            raise errors.NotFound("not this cell's")
        return context

    try:
        if isinstance(report, CreditReport) and (trace := traces.get(report.credit_party.key or "")) is not None:
            traced = await _find_traced(cells, report, trace, answered)
            if traced is not None:
                return traced
        return await cells.find(look, _name_that_leads(report))
    except errors.NotFound:
        return cells.home
    except NO_ANSWER:
        return None


async def _find_traced(cells: Cells, report: CreditReport, trace: KeyTrace, answered: Answered) -> ReportContext | None:
    """The cell of a payment to a key that leads to another cell, or did; ``None`` if it is any other's, or nobody's.

    Raises:
        ServiceUnavailable: It may be a cell's that gives no answer, or that is about to have the key.
    """
    for number in (cell.HOME, *trace.former):
        names = answered[number]
        if names is None:
            raise errors.ServiceUnavailable("a cell that may have answered the payment before gives no answer")
        if report.end_to_end_id in names:
            return cells.at(number)
    if trace.cell is None:
        # A cell that has lost the key still knows that, and would refuse what is the home cell's by now.
        return cells.home if await _knows(cells.home, report) else None
    there = cells.at(trace.cell)
    if not await _knows(there, report):
        # Before it has the key, or when it has lost it, the payment waits until the home cell says so too.
        raise errors.ServiceUnavailable("the key is being given to another cell, or was removed there")
    return there


def _name_that_leads(report: Report) -> str | None:
    if isinstance(report, SettledReport | RejectedReport):
        return report.id
    if isinstance(report, ReturnReport):
        return report.original_end_to_end_id
    return report.txid if isinstance(report, CreditReport) else None


async def _knows(context: ReportContext, report: Report) -> bool:
    if isinstance(report, SettledReport | RejectedReport):
        return bool(await read_ordered(context.pool, [report.id]))
    if isinstance(report, CreditReport):
        holder_id, _ = await find_credited_holder(context, report)
        # One that was answered before gets the same answer, whoever has the account by now.
        return holder_id is not None or await _was_answered(context, report)
    if isinstance(report, ReturnReport):
        originals = await transfer_store.find_named(context.pool, [report.original_end_to_end_id], "OUT")
        return bool(originals) or await find_recorded(context.pool, report) is not None
    if isinstance(report, InfractionReport):
        return bool(await transfer_store.find_named(context.pool, [report.end_to_end_id], "IN"))
    party = report.party
    return await context.directory.find_account(party.branch, party.account_number) is not None


async def _was_answered(context: ReportContext, report: CreditReport) -> bool:
    """Whether a payment of this name was recorded or refused here before, for whomever."""
    async with context.pool.acquire() as connection:
        known, refused = await transfer_store.find_received(connection, [report.end_to_end_id])
    return bool(known or refused)
