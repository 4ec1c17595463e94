"""Ends a loss of the database for an account at an institution: its lost facts are in the books again.

::

    a loss is seen ──► paused, and read ──► an operator confirms ──► as it was before
                                              │ it was not read whole since: refused

The worker reads all lists of the institution by itself; facts without an API are read by an operator, who confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

import structlog

from pixconnect.features.institutions.rules.account import InstitutionAccount, may_lie_on
from pixconnect.features.institutions.rules.day import list_span
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.rules.sweep import is_read_since
from pixconnect.features.institutions.service.account import find_account, found, name_account
from pixconnect.features.institutions.service.open_accounts import OpenInstitution, open_for_operator
from pixconnect.features.institutions.service.sweep import PACES
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection

_A_DAY: Final = timedelta(days=1)
_log = structlog.get_logger(__name__)


async def list_lost(context: Operator) -> Sequence[InstitutionAccount]:
    """List accounts with a loss that no operator has confirmed as recovered."""
    return [account for account in await account_store.list_all(context.pool) if account.lost_at is not None]


async def recover_account(
    context: Operator, open_institution: OpenInstitution, name: str, *, statement_was_read: bool
) -> InstitutionAccount:
    """Resume outgoing money of an account.

    Args:
        statement_was_read: The operator's confirmation, if the institution's API has no statement.

    Raises:
        BadRequest: It has no known loss, or not everything was read since; or a day of that time has no statement here, and
            nothing else shows whether a replayed request was paid before.
        NotFound: The account does not exist.
    """
    async with context.pool.acquire() as connection:
        account = await find_account(connection, name)
        lasts = await day_store.list_last_of(connection, account.id)
        accounts = await account_store.list_all(connection)
    if account.lost_at is None:
        raise errors.BadRequest(f"institution: nothing is known to be forgotten of {name}")
    # Opened for its traits, without calls.
    async with open_for_operator(context, open_institution, account) as institution:
        traits = institution.traits
    unread = [
        pace
        for pace in (*PACES, *(("statement",) if traits.has_statement else ()))
        if pace not in lasts or not is_read_since(lasts[pace], account.lost_at)
    ]
    if unread:
        raise errors.BadRequest(
            f"institution: {name} was not read whole ({', '.join(unread)}) since {account.lost_at.isoformat()}; confirm "
            "again after a worker has read it"
        )
    if not traits.has_statement and not statement_was_read:
        raise errors.BadRequest(
            f"statement_was_read: {name} has no statement by API: read it at the institution, for the lost time "
            f"(`pixconnect database show` prints it), record its file by `pixconnect institution statement {name}`, "
            "and confirm with --statement-was-read"
        )
    doubt = None if traits.has_statement else _find_doubt(account, traits, accounts)
    async with write_alone(context.pool) as connection:
        if doubt is not None:
            await _check_recorded(connection, account, account.lost_at, doubt)
        before = await account_store.lock_named(connection, name)
        if before is None or before.lost_at != account.lost_at:
            raise errors.BadRequest(f"institution: {name} has changed meanwhile; try again")
        after = found(await account_store.recover(connection, account.id), name)
        await audit.record(context, connection, "database recovered", name_account(name), before=before, after=after)
    return after


def _find_doubt(account: InstitutionAccount, traits: InstitutionTraits, accounts: Sequence[InstitutionAccount]) -> str | None:
    """Find why only statement lines show whether a replayed request was paid before; ``None`` if names show it too."""
    if traits.names_first:
        return "pays without our name"
    for other in accounts:
        # Its institution does not know the names that this one knows (``admit_forgotten``).
        if other.id != account.id and other.state != "closed" and may_lie_on(account.tax_id, other.tax_id):
            return f"is of the owner of {other.name}, and a holder of either may succeed one of the other"
    return None


async def _check_recorded(connection: Connection, account: InstitutionAccount, lost_at: datetime, doubt: str) -> None:
    """Refuse a mere confirmation if only the statement can show later whether a request was paid before."""
    losses = await loss_store.find_losses(connection)
    # If the length of the loss is unknown, assume a day.
    first_on = to_day(min([loss.known_until or loss.noticed_at - _A_DAY for loss in losses], default=lost_at - _A_DAY))
    last_on = to_day(lost_at)
    days = await day_store.list_days(connection, account.id, first_on, last_on)
    # A record from before the detection of the loss may lack later payments.
    recorded = {day.day for day in days if day.read_at is not None and day.read_at >= lost_at}
    missing: list[date] = [day for day in list_span(first_on, last_on) if day not in recorded]
    if missing:
        raise errors.BadRequest(
            f"institution: {account.name} {doubt}, so that only its statement shows what a repeated request has paid before: "
            f"record that of {missing[0]} first (`pixconnect institution statement {account.name}`)"
        )
