"""Reports that wait for a person: kept before they are acknowledged, listed, closed.

Closing one moves no money. An operator first puts things right, at the rail or with the holder; closing then records who did
it and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from pixconnect.domain.frame import errors
from pixconnect.domain.money import kept_report
from pixconnect.domain.money.kept_report import Kept, KeptReport, Misfit
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.money import kept_report as kept_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext

LISTED_MAX: Final = 1000
COUNTED_MAX: Final = 10_000
REASON_LENGTH_MAX: Final = 1000

_log = structlog.get_logger(__name__)


async def keep(connection: Connection | Pool, kept: Kept, misfit: Misfit, refusal_code: str | None = None) -> None:
    """Keep a report for an operator, and the code that the rail is answered, if any. Once committed, it may be acknowledged."""
    kept_id, is_new = await kept_store.keep(connection, kept, misfit, refusal_code)
    if is_new:
        _log.critical(
            "a report waits for an operator",
            kept_id=kept_id,
            kind=kept_report.kind_of(kept),
            name=kept_report.storable(kept_report.name_of(kept)),
            reason=misfit.reason,
        )


async def count_open(pool: Pool) -> Mapping[str, int]:
    """How many are open, by reason; counting ends at ``COUNTED_MAX``."""
    return await kept_store.count_open(pool, COUNTED_MAX)


async def list_kept(context: OperatorContext, *, with_closed: bool) -> list[KeptReport]:
    """Open reports, or all, the newest first."""
    return await kept_store.list_newest(context.pool, with_closed=with_closed, count_max=LISTED_MAX)


async def read_kept(context: OperatorContext, kept_id: int) -> KeptReport:
    found = await kept_store.find(context.pool, kept_id)
    if found is None:
        raise errors.NotFound(f"report: there is none with the id {kept_id}")
    return found


async def close_kept(context: OperatorContext, kept_id: int, reason: str) -> KeptReport:
    """Close a report that an operator has dealt with."""
    if not reason.strip() or len(reason) > REASON_LENGTH_MAX:
        raise errors.BadRequest(f"reason: must have 1 to {REASON_LENGTH_MAX} characters that say something")
    async with write_alone(context.pool) as connection:
        before = await kept_store.find(connection, kept_id)
        closed = await kept_store.close(
            connection,
            kept_id,
            kept_report.storable(context.operator),
            kept_report.storable(reason.strip(), REASON_LENGTH_MAX),
        )
        if closed is None:
            known = "there is none with" if before is None else "it is closed already:"
            raise errors.NotFound(f"report: {known} the id {kept_id}")
        await audit.record(context, connection, "report close", f"report {kept_id}", before=before, after=closed)
    return closed
