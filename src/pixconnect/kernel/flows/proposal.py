"""Stores, replaces and confirms proposals of all kinds, in the transactions of the use cases that propose and execute them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.proposal import Proposal, check_confirmation
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

CONFIRM: Final = "proposal confirm"
"""The audit verb of each confirmation."""


def make_proposal(
    context: Operator,
    act: str,
    contents: Mapping[str, str | int],
    *,
    institution_id: int | None = None,
    holder_id: int | None = None,
    rest: timedelta = timedelta(0),
    acts_after: timedelta | None = None,
) -> Proposal:
    """Make an operator's proposal.

    Args:
        rest: How long it cannot be confirmed.
        acts_after: After this time it takes effect without a second operator; by default never.
    """
    now = context.clock.real_now()
    return Proposal(
        act=act,
        institution_id=institution_id,
        holder_id=holder_id,
        contents=contents,
        proposed_by=context.operator,
        proposed_at=now,
        confirmable_at=now + rest,
        acts_at=None if acts_after is None else now + acts_after,
    )


async def propose(context: Operator, connection: Connection, verb: str, subject: str, proposal: Proposal) -> Proposal:
    """Store and audit a proposal, replacing a pending one of the same act; the caller has locked the account or holder."""
    await proposal_store.replace(connection, proposal)
    await audit.record(context, connection, verb, subject, after=proposal)
    return proposal


async def check_waiting(context: Operator, connection: Connection, proposal: Proposal) -> None:
    """Check that a proposal may be confirmed now; the caller has locked its account or holder.

    Raises:
        Forbidden: It is the operator's own proposal.
        BadRequest: It is too early, or it has lapsed.
        NotFound: It was withdrawn, replaced or confirmed meanwhile.
    """
    check_confirmation(proposal, context.operator, context.clock.real_now())
    waiting = await proposal_store.list_waiting(
        connection, institution_id=proposal.institution_id, holder_id=proposal.holder_id
    )
    if proposal not in waiting:
        raise errors.NotFound(f"code: {proposal.code} does not wait any more: read `pixconnect proposal list`")


async def confirm(context: Operator, connection: Connection, proposal: Proposal) -> None:
    """Confirm a proposal in the transaction that executes it, after ``check_waiting``."""
    await check_waiting(context, connection, proposal)
    await proposal_store.confirm(connection, proposal, context.operator, context.clock.real_now())
