"""What operators allow to leave over an account: lowered at once, raised by two of them with an hour between."""

from __future__ import annotations

from msgspec import structs

from pixconnect.features.allowances import tables as allowance_store
from pixconnect.features.allowances.rules import RAISED_AFTER, WantedAllowance, cut, want
from pixconnect.features.institutions.service.account import found, name_account
from pixconnect.features.institutions.service.proposing import confirming, record_confirmed
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.flows.proposal import make_proposal, propose
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.writing.service_time import service_now_to_write


async def allow(context: Operator, name: str, wanted: WantedAllowance) -> Proposal | None:
    """Permit this much to leave an account; an earlier proposal is discarded. A reduction acts at once.

    Returns:
        The proposal to permit more, which another operator must confirm; ``None`` if all of it acts already: it is a reduction,
        or the account is a counterpart's, where nothing can be lost.

    Raises:
        NotFound: There is no such account.
        BadRequest: Nothing is stated, or an impossible sum.
        ServiceUnavailable: It is more, and this machine's clock is wrong; nothing was done.
    """
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        before = await allowance_store.lock(connection, account.id)
        asked = structs.replace(want(before, wanted), allowed_by=context.operator)
        now_allowed = asked if account.environment == "counterpart" else cut(before, asked)
        await proposal_store.forget(connection, "allow", institution_id=account.id)
        proposal = None
        if now_allowed != asked:
            # Its hour would begin before it is visible. A reduction never waits for a clock.
            await service_now_to_write(context.clock, connection)
            said = {member: getattr(asked, member) for member in WantedAllowance.__struct_fields__}
            proposal = make_proposal(context, "allow", said, institution_id=account.id, rest=RAISED_AFTER)
            await propose(context, connection, "institution allow", name_account(name), proposal)
            if structs.replace(now_allowed, allowed_by=before.allowed_by) == before:
                return proposal
        await allowance_store.write(connection, now_allowed)
        await audit.record(
            context, connection, "institution allow", name_account(name), before=before, after=now_allowed
        )
    return proposal


async def allow_more(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Let a raise act that another operator proposed an hour ago or earlier; on a machine whose clock is right alone.

    Raises:
        NotFound: It was taken back, replaced or confirmed meanwhile.
    """
    async with confirming(context, proposal) as (connection, account):
        await service_now_to_write(context.clock, connection)
        before = await allowance_store.lock(connection, account.id)
        after = structs.replace(before, **proposal.contents, allowed_by=context.operator)
        await allowance_store.write(connection, after)
        await record_confirmed(context, connection, account, before, after)
