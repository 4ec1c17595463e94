"""The common part of proposals about accounts at institutions: their locks and their account.

Both a case's proposal and its confirmation lock the account's proposals first, and then the case, so they never deadlock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Case
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service.account import being_worked_on, found, name_account
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import day as sweep_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import CONFIRM, confirm, make_proposal, propose
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.rules import holder
from pixconnect.kernel.rules.holder import QUARANTINE
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

_ACTS_ON_LINES: Final = frozenset(("answer", "separate", "adjust", "decide"))


async def lock_to_propose(connection: Connection, case_id: int) -> None:
    """Lock the proposals of a case's account, if the case exists and is about one."""
    known = await case_store.find(connection, case_id)
    if known is not None and known.institution_id is not None:
        await proposal_store.lock_account(connection, known.institution_id)


async def lock_case(connection: Connection, case_id: int) -> Case:
    case = (await case_store.lock(connection, [case_id])).get(case_id)
    if case is None:
        raise errors.NotFound(f"case: there is none with the id {case_id}")
    return case


async def find_account_of(connection: Connection, case: Case) -> InstitutionAccount:
    for account in await account_store.list_all(connection):
        if account.id == case.institution_id:
            return account
    raise errors.NotFound(f"case: the account that {case.id} is about was removed")


async def lock_account_of(connection: Connection, proposal: Proposal) -> InstitutionAccount:
    """Lock a proposal's account, and its proposals."""
    account_id = errors.require(proposal.institution_id, "it is about an account")
    account = errors.found(await account_store.lock(connection, account_id), "code: its account was removed")
    await proposal_store.lock_account(connection, account_id)
    return account


@asynccontextmanager
async def confirming(context: Operator, proposal: Proposal) -> AsyncGenerator[tuple[Connection, InstitutionAccount]]:
    """Begin the transaction of the proposed action on a locked account; it also confirms the proposal.

    Raises:
        ServiceUnavailable: Another process works on the account's lines.
    """
    account_id = errors.require(proposal.institution_id, "it is about an account")
    async with write_alone(context.pool) as connection:
        # First, as in settling lines: a line is either judged and posted, or answered.
        if proposal.act in _ACTS_ON_LINES and not await day_store.lock_work(connection, account_id):
            account = errors.found(await account_store.find(connection, account_id), "code: its account was removed")
            raise errors.ServiceUnavailable(being_worked_on(account))
        account = await lock_account_of(connection, proposal)
        # First: triggers refuse what only one operator has agreed to.
        await confirm(context, connection, proposal)
        yield connection, account


async def record_confirmed(
    context: Operator, connection: Connection, account: InstitutionAccount, before: audit.State, after: audit.State
) -> None:
    """Audit the changes of a confirmation."""
    await audit.record(context, connection, CONFIRM, name_account(account.name), before=before, after=after)


# Releases a removed Pix key whose former holder's account can no longer be read: one operator proposes, another confirms. The
# confirmed proposal is the release: ``read_quarantine`` in the schema reads it.


async def propose_release(context: Operator, name: str, text: str) -> Proposal:
    """Propose to end the quarantine of a key that waits for a reading of an account.

    Raises:
        NotFound: The account does not exist.
        BadRequest: The key does not wait for it, or the account is read, so that the quarantine ends by itself.
    """
    key = holder.as_kept(text)
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        quarantine = await holder_store.read_quarantine(connection, key)
        if quarantine is None or account.name not in quarantine.unread:
            raise errors.BadRequest(f"key: does not wait for a reading of {name}")
        near = await sweep_store.find(connection, account.id, "near")
        if account.is_read and near is not None and near.ended_at > context.clock.real_now() - QUARANTINE:
            raise errors.BadRequest(
                f"name: {name} is read, so the key is free once a whole reading has ended that began after "
                f"{(quarantine.removed_at + QUARANTINE).isoformat()}"
            )
        proposal = make_proposal(context, "release", dict(key=key), institution_id=account.id)
        return await propose(context, connection, "institution release", name_account(name), proposal)


async def release_key(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Release the key, by the confirmation alone."""
    async with confirming(context, proposal) as (connection, account):
        await record_confirmed(context, connection, account, proposal, proposal)
