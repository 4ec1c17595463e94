"""What one operator proposes for an account at an institution and another confirms: kept, done and recorded in one way.

Proposing for a case and confirming lock what waits on the account first, and then the case: neither waits for the other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.proposal import Proposal, ProposedAct, check_confirmation
from pixconnect.domain.proof.case import Case
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import day as day_store
from pixconnect.store.institutions import proposal as proposal_store
from pixconnect.store.proof import case as case_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import Operator, write_alone
from pixconnect.usecases.institutions.account import being_worked_on, found, name_account

_VERBS: Final[Mapping[ProposedAct, str]] = {
    "close": "institution close",
    "allow": "institution allow",
    "adjust": "case adjust",
    "decide": "case close",
    "release": "institution release",
    "answer": "case answer",
}


_ACTS_ON_LINES: Final = frozenset[ProposedAct](("answer", "adjust", "decide"))


async def lock_to_propose(connection: Connection, case_id: int) -> None:
    """Lock what waits on the account of a case, if there is such a case and it is about one."""
    known = await case_store.find(connection, case_id)
    if known is not None and known.institution_id is not None:
        await proposal_store.lock(connection, known.institution_id)


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


async def propose(
    context: Operator,
    connection: Connection,
    institution_id: int,
    act: ProposedAct,
    said: Mapping[str, str | int],
    subject: str,
    *,
    rest: timedelta = timedelta(0),
) -> Proposal:
    """Keep a proposal, in the place of one of its act that waits, and record it; it may be confirmed after ``rest``."""
    now = context.clock.real_now()
    proposal = Proposal(
        institution_id=institution_id,
        act=act,
        proposal=said,
        proposed_by=context.operator,
        proposed_at=now,
        confirmable_at=now + rest,
    )
    await proposal_store.propose(connection, proposal)
    await audit.record(context, connection, _VERBS[act], subject, after=proposal)
    return proposal


@asynccontextmanager
async def confirming(
    context: Operator, account: InstitutionAccount, proposal: Proposal
) -> AsyncGenerator[tuple[Connection, InstitutionAccount]]:
    """A transaction for the proposed action, which also confirms the proposal; the account is locked.

    Raises:
        Forbidden: It is the operator's own proposal.
        ServiceUnavailable: Another process works on the account's lines.
        NotFound: It was withdrawn, replaced or confirmed meanwhile, or the account was removed.
    """
    check_confirmation(proposal, context.operator, context.clock.real_now())
    async with write_alone(context.pool) as connection:
        # Before all else, as who settles lines does: a line is judged and posted, or answered, and never both.
        if proposal.act in _ACTS_ON_LINES and not await day_store.lock_work(connection, account.id):
            raise errors.ServiceUnavailable(being_worked_on(account))
        locked = found(await account_store.lock_named(connection, account.name), account.name)
        await proposal_store.lock(connection, account.id)
        if proposal not in await proposal_store.list_waiting(connection, account.id):
            raise errors.NotFound(f"name: that does not wait any more on {account.name}: look at what does")
        # First: triggers refuse what only one operator has agreed to.
        await proposal_store.confirm(connection, account.id, proposal.act, context.operator, context.clock.real_now())
        yield connection, locked


async def record_confirmed(
    context: Operator, connection: Connection, account: InstitutionAccount, before: audit.State, after: audit.State
) -> None:
    """Record what a confirmation has changed."""
    subject = name_account(account.name)
    await audit.record(context, connection, "institution confirm", subject, before=before, after=after)
