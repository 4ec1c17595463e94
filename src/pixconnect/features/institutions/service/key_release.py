"""Releases a removed Pix key whose former holder's account can no longer be read: one operator proposes, another confirms.

The confirmed proposal is the release: assigning the key to another holder looks for it (``read_quarantine`` in the schema).
"""

from __future__ import annotations

from pixconnect.features.institutions.service.account import found, name_account
from pixconnect.features.institutions.service.proposing import confirming, record_confirmed
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import sweep as sweep_store
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.flows.proposal import make_proposal, propose
from pixconnect.kernel.rules import holder
from pixconnect.kernel.rules.holder import QUARANTINE
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.platform.base import errors


async def propose_release(context: Operator, name: str, text: str) -> Proposal:
    """Propose to end the quarantine of a key that waits for a reading of an account.

    Raises:
        NotFound: There is no such account.
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
