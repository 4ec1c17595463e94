"""Reports of the rail: each is recorded, or kept for an operator, and then acknowledged.

::

    report ──► its texts judged ──► recorded ──────────────────────────► acknowledged
                     │                 ├── cannot be believed ──► kept ──► acknowledged
                     │                 ├── cannot be recorded ──► comes again, and after some tries ─┐
                     │                 └── not now ──► comes again, as often as it takes             │
                     └──────────────────────────────────────────────────────────────────────────► kept; money refused

Each report fails alone. A report that cannot be recorded is never credited silently: we refuse a payment or return, so that the
payer gets the money back, however often it comes again. If the rail permits no refusal it is only kept. At an institution the
money of a payment is on the account all the same: the report is kept, and the account's house credited, at once if a constraint
refuses it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final, Union, cast, get_args

import asyncpg
import msgspec
import structlog
from msgspec import Struct

from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.credit import CreditSource, find_source
from pixconnect.kernel.flows.incoming import Recorded, find_recorded, first_answer, receive_credit, receive_return
from pixconnect.kernel.flows.network_id import may_be_named_later
from pixconnect.kernel.flows.settlement import UNKNOWN_ORDER, Ending, Unrecorded, end_orders
from pixconnect.kernel.rules import ability, kept_report, rail, reject_code
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection

EndingReport = rail.SettledReport | rail.RejectedReport

_OF_ITS_OWN = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError)
"""Errors that PostgreSQL raises because of the given values, and for no other reason."""
_NOT_NOW = (*DATABASE_FAILED, errors.PixConnectError, rail.RailUnavailable)

_log = structlog.get_logger(__name__)


class Refusable(Struct, frozen=True, kw_only=True):
    """What decides the answer to a report that cannot be recorded, of money that the institution lets us refuse."""

    # Finds what was recorded after all, by report and holder.
    find_recorded: Callable[[Connection, Any, int | None], Awaitable[Recorded | None]]
    find_holder: Callable[[Context, Any], Awaitable[int | None]]  # finds the holder whose balance the report moves


class ReportTaker(Struct, frozen=True, kw_only=True):
    """How a kind of report is recorded."""

    kind: type[Any]
    take: Callable[[Context, Any], Awaitable[rail.Acknowledgement | None]]  # ``None`` if it is to come again
    refusable: Refusable | None = None


async def take_reports(context: Context, reports: Sequence[rail.Report]) -> int:
    """Record reports, or keep them for an operator, and then acknowledge them.

    A report that we could neither record nor keep is not acknowledged: the rail sends it again.

    Returns:
        How many were acknowledged.

    Raises:
        RailUnavailable: The rail will report again, and get the same answers.
    """
    endings = [report for report in reports if isinstance(report, rail.SettledReport | rail.RejectedReport)]
    others = [report for report in reports if not isinstance(report, rail.SettledReport | rail.RejectedReport)]
    # Endings share one call, which writes them in one batch; each other has its own and is batched by the write queue.
    results = await asyncio.gather(_take_endings(context, endings), *(_take_other(context, report) for report in others))
    acknowledgements = [acknowledgement for result in results for acknowledgement in result]
    return await _acknowledge(context, acknowledgements) if acknowledgements else 0


async def _acknowledge(context: Context, acknowledgements: Sequence[rail.Acknowledgement]) -> int:
    """Acknowledge all at once; if one of them breaks the adapter, one by one."""
    try:
        await context.rail.acknowledge(acknowledgements)
    except rail.RailUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  a defect that one acknowledgement meets must not stop the others
        if len(acknowledgements) > 1:
            return sum([await _acknowledge(context, [one]) for one in acknowledgements])
        _log.exception("cannot acknowledge a report", reason=_name_of(error))
        return 0
    return len(acknowledgements)


async def _take_endings(context: Context, reports: Sequence[EndingReport]) -> list[rail.Acknowledgement]:
    faults = [_find_fault(report) for report in reports]
    sound = [report for report, fault in zip(reports, faults, strict=True) if fault is None]
    outcomes = iter(await _end(context, sound) if sound else [])
    acknowledgements: list[rail.Acknowledgement] = []
    for report, fault in zip(reports, faults, strict=True):
        outcome = _cannot_be_recorded(fault) if fault is not None else next(outcomes)
        if isinstance(outcome, Exception):
            outcome = _judge_failure(context, report, outcome)
        if outcome is UNKNOWN_ORDER and may_be_named_later(context, report):
            outcome = errors.ServiceUnavailable("the name of the order may be reported yet")
        try:
            # Kept before it is acknowledged, because then the rail forgets it.
            if isinstance(outcome, Misfit):
                await kept_usecases.keep_reported(context, report, outcome)
        except Exception as error:  # noqa: BLE001  what cannot be kept comes again
            outcome = error
        if isinstance(outcome, Exception):
            _log.warning("report waits", reason=_name_of(outcome))
        else:
            acknowledgements.append(rail.Acknowledgement(report_id=report.report_id))
    return acknowledgements


async def _end(context: Context, reports: Sequence[EndingReport]) -> Sequence[Unrecorded | Exception | None]:
    """Record all at once; if one of them makes that fail, one by one."""
    try:
        return await end_orders(context, [(report.id, _ending_of(report)) for report in reports])
    except _NOT_NOW as error:
        if len(reports) == 1 or not _is_of_its_own(error):
            return [error] * len(reports)
    except Exception as error:  # noqa: BLE001  a defect that one of them meets must not stop the others
        if len(reports) == 1:
            return [error]
    alone = [await _end(context, [report]) for report in reports]
    return [outcome for outcomes in alone for outcome in outcomes]


def _ending_of(report: EndingReport) -> Ending:
    if isinstance(report, rail.SettledReport):
        return rail.Settled(settled_at=report.settled_at, network_id=report.network_id)
    return rail.Rejected(code=report.code, reason=report.reason, network_id=report.network_id)


async def _take_other(context: Context, report: rail.Report) -> list[rail.Acknowledgement]:
    """Record a report that ends no order; one that cannot be recorded is refused, if the institution lets us, and kept."""
    taker = find_taker(type(report))
    try:
        fault, code = _find_fault(report), reject_code.WRONG_CONTENTS
        try:
            if fault is None and taker is not None:
                return await _take(context, report, taker)
            misfit = _cannot_be_recorded(fault or "nothing here records such reports")
        except Exception as error:
            judged, code = _judge_failure(context, report, error), reject_code.RECEIVER_FAILED
            if isinstance(judged, Exception):
                raise
            misfit, house_id = judged, find_source(context).house_id
            if isinstance(report, rail.CreditReport) and house_id is not None:
                # Kept first: once it is credited to the account's house, no list contains it again.
                await kept_usecases.keep(context.pool, report, misfit, is_listed=True)
                return [await receive_credit(context, report, house_id)]
        if taker is not None and taker.refusable is not None:
            return [await _refuse(context, report, taker.refusable, misfit, code)]
        await kept_usecases.keep_reported(context, report, misfit)
    except Exception as error:  # noqa: BLE001  it is not acknowledged, so it comes again
        _log.warning("report waits", reason=_name_of(error))
        return []
    return [rail.Acknowledgement(report_id=report.report_id)]


async def _take(context: Context, report: rail.Report, taker: ReportTaker) -> list[rail.Acknowledgement]:
    acknowledgement = await taker.take(context, report)
    if acknowledgement is None or taker.refusable is None:
        return [] if acknowledgement is None else [acknowledgement]
    # A settled payment without a holder that cannot be refused is kept for an operator, and acknowledged without a refusal.
    answer, code = ability.answer_report(context.policy.abilities, acknowledgement), acknowledgement.refusal_code
    # An accepted payment's money is not here yet; and a report that contradicts a cancellation is kept for that reason.
    if answer != acknowledgement and not isinstance(report, rail.CreditAccepted) and code != reject_code.NOT_SETTLED:
        explanation = f"we would refuse it with {code}, and the rail does not let us: its money is in no account"
        misfit = Misfit(reason="cannot_be_refused", explanation=explanation)
        await kept_usecases.keep_reported(context, report, misfit)
    return [answer]


async def _refuse(
    context: Context, report: rail.Report, refusable: Refusable, misfit: Misfit, code: str
) -> rail.Acknowledgement:
    """Keep a report that cannot be recorded, and refuse it for good; if it was recorded after all, repeat that answer."""
    try:
        holder_id = await refusable.find_holder(context, report)
    except _OF_ITS_OWN:
        holder_id = None  # no look-up is possible with these contents, and so no credit
    async with context.pool.acquire() as connection, connection.transaction():
        # The lock prevents a concurrent credit between the look-up and the refusal.
        if holder_id is not None:
            await ledger_store.lock_balance(connection, holder_id)
        recorded = await refusable.find_recorded(connection, report, holder_id)
        answer = rail.Acknowledgement(report_id=report.report_id, refusal_code=code)
        if recorded is not None:
            answer = first_answer(report, recorded)
        answer = ability.answer_report(context.policy.abilities, answer)
        refusal_code = answer.refusal_code if recorded is None else None
        await kept_usecases.keep_reported(context, report, misfit, refusal_code, connection)
    return answer


async def _find_recorded(
    connection: Connection, report: rail.CreditReport | rail.ReturnReport, holder_id: int | None
) -> Recorded | None:
    return await find_recorded(connection, report) if kept_report.is_name(report.subject) else None


async def _find_credited(context: Context, report: rail.CreditReport) -> int | None:
    return (await CreditSource().find_credited(context, report)).holder_id


async def _find_payer(context: Context, report: rail.ReturnReport) -> int | None:
    originals = await transfer_store.find_named(context.pool, [report.original_end_to_end_id], "OUT")
    return originals[report.original_end_to_end_id].holder_id if originals else None


CREDITED: Final = Refusable(find_recorded=_find_recorded, find_holder=_find_credited)
TAKERS: Final = (
    ReportTaker(kind=rail.CreditReport, take=receive_credit, refusable=CREDITED),
    ReportTaker(
        kind=rail.ReturnReport, take=receive_return, refusable=Refusable(find_recorded=_find_recorded, find_holder=_find_payer)
    ),
)


@cache
def find_taker(kind: type[rail.Report]) -> ReportTaker | None:
    """The kernel's own, or a feature's."""
    takers = (*TAKERS, *gather("report_takers", ReportTaker))
    return next((taker for taker in takers if issubclass(kind, taker.kind)), None)


@cache
def make_decoder() -> msgspec.json.Decoder[list[rail.Report]]:
    """The decoder of a rail's reports."""
    kinds = (*get_args(rail.OwnReport), *(taker.kind for taker in gather("report_takers", ReportTaker)))
    return msgspec.json.Decoder(cast("type[list[rail.Report]]", list[Union[kinds]]))  # noqa: UP007


def _judge_failure(context: Context, report: rail.Report, error: Exception) -> Exception | Misfit:
    """Turn a failure into a misfit, once the report has failed often and long enough by its own fault."""
    # No retry can record a payment that breaks a constraint and cannot be refused.
    if isinstance(report, rail.CreditReport) and find_source(context).is_final and _breaks_constraint(error):
        cause = error.__cause__ or error
        broken = getattr(cause, "constraint_name", None) or type(cause).__name__
        return _cannot_be_recorded(f"the schema refuses it ({broken}), so it was credited to the account's house")
    if not _is_of_its_own(error):
        return error
    name = f"{kept_report.kind_of(report)} {report.report_id}"
    if not context.failed_reports.is_enough(name, context.clock.monotonic_s()):
        return error
    return _cannot_be_recorded(f"recording it failed again and again: {_name_of(error)}")


def _breaks_constraint(error: BaseException) -> bool:
    if isinstance(error, errors.InternalError) and error.__cause__ is not None:
        return _breaks_constraint(error.__cause__)
    is_unique = isinstance(error, asyncpg.UniqueViolationError)  # another try has other ids
    return isinstance(error, asyncpg.IntegrityConstraintViolationError) and not is_unique


def _is_of_its_own(error: BaseException) -> bool:
    """Whether the report's own contents cause a failure, and not a database that is unreachable, busy, or being changed."""
    if isinstance(error, errors.InternalError):
        return error.__cause__ is not None and _is_of_its_own(error.__cause__)
    if isinstance(error, asyncpg.UniqueViolationError):
        return False  # two concurrent processes, or sequences that were set back: the next try has other ids
    return isinstance(error, _OF_ITS_OWN) or not isinstance(error, _NOT_NOW)


def _find_fault(report: rail.Report) -> str | None:
    try:
        return kept_report.find_fault(report)
    except Exception as error:  # noqa: BLE001  an adapter that fills a field with something else
        return f"it cannot even be read: {_name_of(error)}"


def _cannot_be_recorded(explanation: str) -> Misfit:
    return Misfit(reason="cannot_be_recorded", explanation=explanation)


def _name_of(error: BaseException) -> str:
    """Return what failed, without the values that a message may quote."""
    if isinstance(error, errors.InternalError) and error.__cause__ is not None:
        return _name_of(error.__cause__)
    return error.code if isinstance(error, errors.PixConnectError) else type(error).__name__
