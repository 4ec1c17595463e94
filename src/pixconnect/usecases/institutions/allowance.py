"""What operators allow to leave over an account: lowered at once, raised by two of them with an hour between."""

from __future__ import annotations

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.allowance import RAISED_AFTER, Allowance, WantedAllowance, cut, want
from pixconnect.domain.institutions.proposal import Proposal, check_confirmation
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import allowance as allowance_store
from pixconnect.store.institutions import proposal as proposal_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import Operator, Writer
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.institutions.account import found, name_account
from pixconnect.writing.service_time import service_now_to_write


async def allow(context: Operator, name: str, wanted: WantedAllowance) -> Proposal | None:
    """Allow so much to leave an account; what was proposed before is forgotten. What is less than before acts at once.

    Returns:
        The proposal to allow more, which another operator must confirm; ``None`` where all of it acts already: it is less
        than before, or the account is a counterpart's, where nothing can be lost.

    Raises:
        NotFound: There is no such account.
        BadRequest: Nothing is said, or a sum that cannot be.
        ServiceUnavailable: It is more, and this machine's clock is wrong; nothing was done.
    """
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        before = await allowance_store.lock(connection, account.id)
        asked = structs.replace(want(before, wanted), allowed_by=context.operator)
        now_allowed = asked if account.environment == "counterpart" else cut(before, asked)
        await proposal_store.forget(connection, account.id, "allow")
        proposal = None if now_allowed == asked else _propose(context, account, asked)
        if proposal is not None:
            # Its hour would begin when nobody was looking yet. What is less never waits for a clock.
            await service_now_to_write(context.clock, connection)
            await proposal_store.propose(connection, proposal)
            await audit.record(context, connection, "institution allow", name_account(name), after=proposal)
            if structs.replace(now_allowed, allowed_by=before.allowed_by) == before:
                return proposal
        await allowance_store.write(connection, now_allowed)
        await audit.record(
            context, connection, "institution allow", name_account(name), before=before, after=now_allowed
        )
    return proposal


def _propose(context: Operator, account: InstitutionAccount, asked: Allowance) -> Proposal:
    now = context.clock.real_now()
    return Proposal(
        institution_id=account.id,
        act="allow",
        proposal={name: getattr(asked, name) for name in WantedAllowance.__struct_fields__},
        proposed_by=context.operator,
        proposed_at=now,
        confirmable_at=now + RAISED_AFTER,
    )


async def allow_more(
    context: Operator,
    writes: Writer,
    account: InstitutionAccount,
    proposal: Proposal,
) -> None:
    """Let a raise act that another operator proposed an hour ago or earlier; on a machine whose clock is right alone.

    Raises:
        NotFound: It was taken back, replaced or confirmed meanwhile.
    """
    async with write_alone(context.pool) as connection:
        await service_now_to_write(context.clock, connection)
        now = context.clock.real_now()
        check_confirmation(proposal, context.operator, now)
        found(await account_store.lock_named(connection, account.name), account.name)
        if proposal not in await proposal_store.list_waiting(connection, account.id):
            raise errors.NotFound(f"name: that does not wait any more on {account.name}: look at what does")
        before = await allowance_store.lock(connection, account.id)
        # Those of before transfers could leave say nothing of them.
        after = structs.replace(before, **proposal.proposal, allowed_by=context.operator)
        await proposal_store.confirm(connection, account.id, "allow", context.operator, now)
        await allowance_store.write(connection, after)
        await audit.record(
            context, connection, "institution confirm", name_account(account.name), before=before, after=after
        )
