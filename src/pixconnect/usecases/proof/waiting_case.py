"""What is proposed for a case and waits for another operator: it is locked first, and then the case.

Who proposes and who confirms lock in this order, so that neither waits for the other.
"""

from __future__ import annotations

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.proposal import Proposal
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import proposal as proposal_store
from pixconnect.store.proof import case as case_store


async def lock_to_propose(connection: Connection, case_id: int) -> None:
    """Lock what waits on the account of a case, if there is such a case and it is about one."""
    known = await case_store.find(connection, case_id)
    if known is not None and known.institution_id is not None:
        await proposal_store.lock(connection, known.institution_id)


async def refuse_gone(connection: Connection, account: InstitutionAccount, proposal: Proposal) -> None:
    """Lock what waits on the account.

    Raises:
        NotFound: The proposal is not among it any more.
    """
    await proposal_store.lock(connection, account.id)
    if proposal not in await proposal_store.list_waiting(connection, account.id):
        raise errors.NotFound(f"name: that does not wait any more on {account.name}")
