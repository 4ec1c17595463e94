"""Reports that wait for an operator: kept before they are acknowledged, listed, closed.

Closing moves no money. An operator first puts things right, at the rail or with the holder; closing then records the operator
and the reason.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import structlog

from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.flows.credit import find_source
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.kept_report import KeptItem, KeptReport, Misfit
from pixconnect.kernel.rules.rail import Report
from pixconnect.kernel.tables import kept_report as kept_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

LISTED_MAX: Final = 1000
COUNTED_MAX: Final = 10_000
REASON_LENGTH_MAX: Final = 1000
UNREADABLE_OPEN_MAX: Final = 500  # maximum of open unreadable reports, of all accounts: more than a person reads one by one

AHEAD_MAX: Final = timedelta(minutes=5)  # maximum lead of institutions' clocks over ours

_log = structlog.get_logger(__name__)


async def keep(
    connection: Connection | Pool, kept: Report, misfit: Misfit, refusal_code: str | None = None, *, is_listed: bool = False
) -> None:
    """Keep a report for an operator, with any refusal code for the rail. Once committed, it may be acknowledged.

    Args:
        is_listed: It came from a list, which is read again and again: only the first time counts.
    """
    kept_id, is_new = await kept_store.keep(connection, kept, misfit, refusal_code, is_listed=is_listed)
    if is_new:
        _log.critical(
            "a report waits for an operator",
            kept_id=kept_id,
            kind=kept_report.kind_of(kept),
            name=kept_report.storable(kept.subject),
            reason=misfit.reason,
        )


async def keep_reported(
    context: Context, report: Report, misfit: Misfit, refusal_code: str | None = None, connection: Connection | None = None
) -> None:
    """Keep a report of the context's rail, or of the list of its account."""
    is_listed = find_source(context).is_final
    await keep(connection or context.pool, report, misfit, refusal_code, is_listed=is_listed)


async def keep_listed_item(pool: Pool, item: KeptItem, misfit: Misfit) -> None:
    """Keep an unreadable item of a list, if fewer than ``UNREADABLE_OPEN_MAX`` wait; otherwise a later reading keeps it.

    The limit bounds the reports from an institution that lists other items each time.
    """
    if await kept_store.count_unreadable(pool, UNREADABLE_OPEN_MAX) < UNREADABLE_OPEN_MAX:
        await keep(pool, item, misfit, is_listed=True)
    else:
        _log.error(
            "an item that cannot be read is not kept: too many wait for an operator", name=item.name, account=item.account
        )


async def keep_if_dated_ahead(context: Context, kept: Report, settled_at: datetime | None) -> bool:
    """Keep a listed fact dated further ahead than clocks can differ; it is recorded once its time has come."""
    # In a sandbox either clock may be ahead of the other.
    now = max(context.clock.now(), context.clock.real_now())
    if settled_at is None or settled_at <= now + AHEAD_MAX:
        return False
    explanation = f"it is dated {settled_at.isoformat()}, and was reported at {now.isoformat()}"
    await keep(context.pool, kept, Misfit(reason="cannot_be_recorded", explanation=explanation), is_listed=True)
    return True


async def count_open(pool: Pool) -> Mapping[str, int]:
    """Count open reports by reason; counting ends at ``COUNTED_MAX``."""
    return await kept_store.count_open(pool, COUNTED_MAX)


async def list_kept(context: Operator, *, with_closed: bool) -> list[KeptReport]:
    return await kept_store.list_newest(context.pool, with_closed=with_closed, count_max=LISTED_MAX)


async def read_kept(context: Operator, kept_id: int) -> KeptReport:
    return errors.found(await kept_store.find(context.pool, kept_id), f"report: there is none with the id {kept_id}")


class ReportClosing(NamedTuple):
    """Ends what a feature keeps for a report, in the transaction that closes it: by whom, and why."""

    end: Callable[[Connection, int, str, str], Awaitable[None]]


async def close_kept(context: Operator, kept_id: int, reason: str) -> KeptReport:
    if not reason.strip() or len(reason) > REASON_LENGTH_MAX:
        raise errors.BadRequest(f"reason: must have 1 to {REASON_LENGTH_MAX} characters, not all blank")
    async with write_alone(context.pool) as connection:
        before = await kept_store.find(connection, kept_id)
        closed = await kept_store.close(
            connection, kept_id, kept_report.storable(context.operator), kept_report.storable(reason.strip(), REASON_LENGTH_MAX)
        )
        if closed is None:
            known = "there is none with" if before is None else "it is closed already:"
            raise errors.NotFound(f"report: {known} the id {kept_id}")
        # Together with the case that waits for the same person: a case left open would ask for a completed task.
        for closing in gather("report_closings", ReportClosing):
            await closing.end(
                connection, kept_id, errors.require(closed.closed_by, "it is closed"), closed.close_reason or reason
            )
        await audit.record(context, connection, "report close", f"report {kept_id}", before=before, after=closed)
    return closed
