"""A second operator who confirms what waits on an account."""

from pixconnect.features.cases.service.proposal import confirm_proposal
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows.context import Operator, Writer
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import proposal as proposal_store


async def confirm_waiting(
    operator: Operator, writer: Writer, name: str, act: str | None = None, code: str | None = None
) -> Proposal:
    """Confirm what waits on an account, of an act where several do; by another code than its own if there is one."""
    account = await account_store.find_named(writer.pool, name)
    assert account is not None
    waiting = await proposal_store.list_waiting(writer.pool, institution_id=account.id)
    codes = [one.code for one in waiting if act in (None, one.act)] or ["none"]
    return await confirm_proposal(operator, writer, codes[0] if code is None else code)
