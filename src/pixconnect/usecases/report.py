"""What the rail reports, whatever it is: each report to whoever records it, and our word back to the rail."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from pixconnect.domain import errors
from pixconnect.domain.rail import (
    Acknowledgement,
    CreditReport,
    Rejected,
    RejectedReport,
    Report,
    ReturnReport,
    Settled,
    SettledReport,
)
from pixconnect.usecases.incoming import receive_credit, receive_return
from pixconnect.usecases.settlement import Ending, end_orders

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context

_log = structlog.get_logger(__name__)


async def take_reports(context: "Context", reports: Sequence[Report]) -> int:
    """Record reports, and then acknowledge them.

    What could not be recorded is not acknowledged: the rail reports it again.

    Returns:
        How many were acknowledged.

    Raises:
        RailUnavailable: The rail did not hear our word; it will report again, and nothing will change by it.
    """
    endings = [report for report in reports if isinstance(report, SettledReport | RejectedReport)]
    arrivals = [report for report in reports if isinstance(report, CreditReport | ReturnReport)]
    results = await asyncio.gather(
        _record_endings(context, endings), *(_record_arrival(context, report) for report in arrivals)
    )
    said = [acknowledgement for result in results for acknowledgement in result]
    if said:
        await context.rail.acknowledge(said)
    return len(said)


async def _record_endings(
    context: "Context", reports: Sequence[SettledReport | RejectedReport]
) -> list[Acknowledgement]:
    endings: list[tuple[str, Ending]] = []
    for report in reports:
        if isinstance(report, SettledReport):
            endings.append((report.id, Settled(settled_at=report.settled_at)))
        else:
            endings.append((report.id, Rejected(code=report.code, reason=report.reason)))
    failed = await end_orders(context, endings) if endings else {}
    if failed:
        _log.warning("reports wait", reports_count=len(failed), reasons=sorted({why.code for why in failed.values()}))
    return [Acknowledgement(report_id=report.report_id) for report in reports if report.id not in failed]


async def _record_arrival(context: "Context", report: CreditReport | ReturnReport) -> list[Acknowledgement]:
    try:
        if isinstance(report, CreditReport):
            word: Acknowledgement | None = await receive_credit(context, report)
        else:
            word = await receive_return(context, report)
    except errors.PixConnectError as error:
        _log.warning("report waits", reason=error.code)
        return []
    return [] if word is None else [word]
