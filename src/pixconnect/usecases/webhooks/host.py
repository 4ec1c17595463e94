"""A host gets key webhooks of one holder only, unless an operator allows more.

A holder who names another's URL for a key of their own makes us tell that receiver, truthfully and signed, of a payment
that looks like the receiver's own. Only the name of the host counts: in live mode we verify certificates by it, so no
other name or address leads to the same receiver unless its certificate says so.
"""

from __future__ import annotations

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.webhooks import address_rules
from pixconnect.foundation.pool import Connection
from pixconnect.store.webhooks import host as webhook_host_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import Context, Operator
from pixconnect.usecases.frame.lone_write import write_alone


class HostIsAnothers(errors.InvalidWebhookUrl):
    """This host gets another holder's key webhooks already."""


async def refuse_anothers_host(context: Context, connection: Connection, caller: Caller, url: str) -> None:
    """Refuse a URL, which was checked, in the transaction that takes it; raises ``HostIsAnothers``."""
    # In a sandbox one machine may get the webhooks of all of a team's holders.
    if context.policy.is_sandbox:
        return
    spellings = address_rules.spell_host(address_rules.host_of(url))
    await webhook_host_store.lock(connection, spellings[0])
    if await webhook_host_store.is_anothers(connection, spellings, caller.holder_id):
        raise HostIsAnothers(
            f"url: {spellings[0]} is told of another holder's Pix keys; ask the operator to allow it "
            "(`pixconnect operator endpoint allow`)"
        )


async def allow_host(context: Operator, host: str) -> str:
    """Let several holders have webhooks at a host, for good; the host as it is kept."""
    try:
        kept = address_rules.spell_host(host)[0]
    except address_rules.TargetRefused as refused:
        raise errors.BadRequest(f"host: {refused}") from None
    async with write_alone(context.pool) as connection:
        if await webhook_host_store.allow(connection, kept):
            await audit.record(context, connection, "operator endpoint allow", f"host {kept}")
    return kept
