"""What ends a loss of the database for an account at an institution: what was forgotten of it is in the books again.

::

    a loss is seen ──► paused, and read ──► an operator says so ──► as it was before
                                              │ it was not read whole since: refused

The worker reads by itself whatever the institution lists; what no API tells an operator reads, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.sweep import is_read_since
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import sweep as sweep_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions.account import find_account, found, name_account
from pixconnect.usecases.institutions.credential import OpenInstitution, open_for_operator
from pixconnect.usecases.institutions.sweep import PACES


async def list_lost(context: OperatorContext) -> Sequence[InstitutionAccount]:
    """Accounts of which the database has forgotten something that no operator has said to be in the books again."""
    async with context.pool.acquire() as connection:
        return [account for account in await account_store.list_all(connection) if account.lost_at is not None]


async def recover_account(
    context: OperatorContext, open_institution: OpenInstitution, name: str, *, statement_was_read: bool
) -> InstitutionAccount:
    """Let money leave an account again.

    Args:
        statement_was_read: The operator's word, where the institution's API tells no statement.

    Raises:
        BadRequest: Nothing is known to be forgotten of it, or not everything was read since.
        NotFound: There is no such account.
    """
    async with context.pool.acquire() as connection:
        account = await find_account(connection, name)
        lasts = await sweep_store.list_last_of(connection, account.id)
    if account.lost_at is None:
        raise errors.BadRequest(f"institution: nothing is known to be forgotten of {name}")
    has_statement = await _has_statement(context, open_institution, account)
    unread = [
        pace
        for pace in (*PACES, *(("statement",) if has_statement else ()))
        if pace not in lasts or not is_read_since(lasts[pace], account.lost_at)
    ]
    if unread:
        raise errors.BadRequest(
            f"institution: {name} was not read whole ({', '.join(unread)}) since {account.lost_at.isoformat()}: a worker reads "
            "it by itself; say it again then"
        )
    if not has_statement and not statement_was_read:
        raise errors.BadRequest(
            f"statement_was_read: no statement of {name} is told by its API: read it there yourself, for the time that is "
            f"forgotten (`pixconnect database show` says which), record its file by `pixconnect institution statement {name}`, "
            "and say so with --statement-was-read"
        )
    async with write_alone(context.pool) as connection:
        before = await account_store.lock_named(connection, name)
        if before is None or before.lost_at != account.lost_at:
            raise errors.BadRequest(f"institution: {name} has changed meanwhile: say it again")
        after = found(await account_store.recover(connection, account.id), name)
        await audit.record(context, connection, "database recovered", name_account(name), before=before, after=after)
    return after


async def _has_statement(
    context: OperatorContext, open_institution: OpenInstitution, account: InstitutionAccount
) -> bool:
    institution = await open_for_operator(context, open_institution, account)
    try:
        return institution.traits.has_statement
    finally:
        await institution.close()
