"""What operators allow to leave over an account: lowered at once, raised by two of them with an hour between."""

from __future__ import annotations

from msgspec import structs

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.allowance import RAISED_AFTER, check_cents
from pixconnect.domain.institutions.proposal import Proposal, check_confirmation
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import allowance as allowance_store
from pixconnect.store.institutions import proposal as proposal_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions.account import found, name_account
from pixconnect.usecases.institutions.statement import SettlingContext


async def allow(context: OperatorContext, name: str, refunds_day_cents: int) -> Proposal | None:
    """Allow refunds up to a sum a day, 0 for none; what was proposed before is forgotten.

    Returns:
        The proposal to allow more, which another operator must confirm; ``None`` where it acts already: it is less than
        before, or the account is a counterpart's, where nothing can be lost.

    Raises:
        NotFound: There is no such account.
        BadRequest: It is no sum that can be.
    """
    check_cents(refunds_day_cents)
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        before = await allowance_store.lock(connection, account.id)
        await proposal_store.forget(connection, account.id, "allow")
        if refunds_day_cents > before.refunds_day_cents and account.environment != "counterpart":
            now = context.clock.real_now()
            proposal = Proposal(
                institution_id=account.id,
                act="allow",
                proposal=dict(refunds_day_cents=refunds_day_cents),
                proposed_by=context.operator,
                proposed_at=now,
                confirmable_at=now + RAISED_AFTER,
            )
            await proposal_store.propose(connection, proposal)
            await audit.record(context, connection, "institution allow", name_account(name), after=proposal)
            return proposal
        after = structs.replace(before, refunds_day_cents=refunds_day_cents, allowed_by=context.operator)
        await allowance_store.write(connection, after)
        await audit.record(context, connection, "institution allow", name_account(name), before=before, after=after)
    return None


async def allow_more(
    context: OperatorContext,
    writes: SettlingContext,
    account: InstitutionAccount,
    proposal: Proposal,
) -> None:
    """Let a raise act that another operator proposed an hour ago or earlier."""
    now = context.clock.real_now()
    check_confirmation(proposal, context.operator, now)
    async with write_alone(context.pool) as connection:
        found(await account_store.lock_named(connection, account.name), account.name)
        before = await allowance_store.lock(connection, account.id)
        cents = int(proposal.proposal["refunds_day_cents"])
        after = structs.replace(before, refunds_day_cents=cents, allowed_by=context.operator)
        await proposal_store.confirm(connection, account.id, "allow", context.operator, now)
        await allowance_store.write(connection, after)
        await audit.record(
            context, connection, "institution confirm", name_account(account.name), before=before, after=after
        )
