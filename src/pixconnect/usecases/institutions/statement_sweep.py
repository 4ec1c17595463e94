"""Reads the account's own statement where there is one by API: its lines are kept, joined, and posted where nobody's."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.institution import Institution, InstitutionItem, InstitutionUnavailable
from pixconnect.domain.institutions.statement_file import to_day
from pixconnect.domain.institutions.sweep import is_due
from pixconnect.store.institutions import sweep as sweep_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.institutions.statement import record_listed, settle_items
from pixconnect.usecases.institutions.sweep import note_end, note_failure

EVERY: Final = timedelta(minutes=10)
DAYS_BEHIND: Final = 2
"""Whole days before today that are read again: institutions book late."""

_log = structlog.get_logger(__name__)


async def sweep_statement(context: Context, account: InstitutionAccount, institution: Institution) -> int:
    """Read the last days' lines if that is due, and answer how many there were.

    Raises:
        InstitutionUnavailable: Nothing of this reading is kept.
    """
    if not institution.traits.has_statement:
        return 0
    last = await sweep_store.find(context.pool, account.id, "statement")
    began_at = context.clock.real_now()
    if not is_due("statement", last, EVERY, began_at):
        return 0
    today = to_day(began_at)
    first = max(today - timedelta(days=DAYS_BEHIND), to_day(account.opened_at))
    items: list[InstitutionItem] = []
    try:
        async for page in institution.list_statement(first, today):
            for item in page:
                if isinstance(item, InstitutionItem):
                    items.append(item)
                else:
                    _log.error("a line of a statement cannot be read", institution=account.name, reason=item.reason)
    except InstitutionUnavailable as error:
        await note_failure(context, account, "statement", error.reason)
        raise
    await record_listed(context, account, (first, today), items)
    await settle_items(context, account)
    await note_end(context, account, "statement", began_at, len(items))
    return len(items)
