"""Proposals of all kinds: listed, and executed once another operator confirms them by code.

A confirmation is one transaction, so a crash in it has done nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from pixconnect.features.allowances.service import allow_more
from pixconnect.features.cases.service.adjustment import adjust_case
from pixconnect.features.cases.service.answer import answer_case
from pixconnect.features.cases.service.case_ending import end_by_case
from pixconnect.features.cases.service.pattern import remember_answer
from pixconnect.features.cases.service.separation import separate_lines
from pixconnect.features.institutions.service.proposals import change_addresses, close_account, release_key
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows.context import Core, Operator, Writer
from pixconnect.kernel.flows.holder import loosen_holder
from pixconnect.kernel.rules.proposal import Proposal, check_confirmation
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors

KINDS: Final[Mapping[str, Callable[[Operator, Writer, Proposal], Awaitable[None]]]] = dict(
    close=close_account,
    allow=allow_more,
    adjust=adjust_case,
    decide=end_by_case,
    release=release_key,
    rotate=change_addresses,
    answer=answer_case,
    separate=separate_lines,
    remember=remember_answer,
    limits=loosen_holder,
    approvals=loosen_holder,
)
"""Per act: checks the proposal again, executes it, and confirms it in the same transaction."""


async def list_proposals(context: Core) -> list[tuple[str, Proposal]]:
    """List proposals that a second operator can confirm, oldest first; each with its account or holder."""
    now = context.clock.real_now()
    async with context.pool.acquire() as connection:
        names = {account.id: account.name for account in await account_store.list_all(connection)}
        waiting = await proposal_store.list_waiting(connection)
    return [
        (
            f"holder {one.holder_id}"
            if one.institution_id is None
            else f"institution {names.get(one.institution_id, one.institution_id)}",
            one,
        )
        for one in waiting
        if now < one.lapses_at
    ]


async def confirm_proposal(context: Operator, writes: Writer, code: str) -> Proposal:
    """Execute another operator's proposal, by the code of the one that was read.

    Raises:
        NotFound: No pending proposal has this code.
        Forbidden: It is this operator's own, or of the same database login.
        BadRequest: It may not be confirmed yet, has lapsed, or cannot be executed any more.
    """
    async with context.pool.acquire() as connection:
        waiting = [one for one in await proposal_store.list_waiting(connection) if one.code == code]
        if len(waiting) != 1:
            raise errors.NotFound(f"code: no proposal with the code {code} waits: read `pixconnect proposal list`")
        (proposal,) = waiting
        check_confirmation(proposal, context.operator, context.clock.real_now())
        # The schema refuses it too; checked here, because closing an account begins before it is confirmed.
        if conflict := await proposal_store.find_login_conflict(connection, proposal):
            raise errors.Forbidden(
                f"confirm: {conflict}: another operator confirms, by a database login of their own "
                "(PIXCONNECT_OPERATOR_DATABASE_URL), or it is proposed again"
            )
    await KINDS[proposal.act](context, writes, proposal)
    return proposal
