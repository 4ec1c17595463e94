"""Confirms what another operator has proposed for an account."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.confirmation import check_second_login
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.proposal import (
    Proposal,
    ProposedAct,
    check_confirmation,
    check_reading,
    name_proposal,
)
from pixconnect.store.institutions import account as account_store
from pixconnect.store.institutions import proposal as proposal_store
from pixconnect.usecases.frame.context import Operator, Writer
from pixconnect.usecases.institutions.account import found
from pixconnect.usecases.institutions.allowance import allow_more
from pixconnect.usecases.institutions.closing import close_account
from pixconnect.usecases.institutions.key_release import release_key
from pixconnect.usecases.proof.adjustment import adjust_case
from pixconnect.usecases.proof.answer import answer_case
from pixconnect.usecases.proof.case_ending import end_by_case

Confirmed = Callable[[Operator, Writer, InstitutionAccount, Proposal], Awaitable[None]]
"""Executes the proposal, and records the confirmation in the same transaction."""
_ACTS: Final[Mapping[str, Confirmed]] = dict(
    close=close_account,
    allow=allow_more,
    adjust=adjust_case,
    decide=end_by_case,
    release=release_key,
    answer=answer_case,
)


async def confirm_proposal(
    context: Operator, writes: Writer, name: str, act: ProposedAct | None = None, code: str | None = None
) -> tuple[InstitutionAccount, Proposal]:
    """Execute the pending proposal on an account, or that of an act if several are pending.

    Args:
        context: The confirming operator's.
        writes: Writes money.
        name: The account.
        act: Selects among several.
        code: The code of the proposal that the operator has read, required for an adjustment.

    Raises:
        NotFound: There is no such account, or no such pending proposal.
        Forbidden: It is this operator's own.
        BadRequest: It may not be confirmed yet, cannot be done, or differs from the one read; or several wait, and no act is
        given.
    """
    async with context.pool.acquire() as connection:
        account = found(await account_store.find_named(connection, name), name)
        # A proposal that is too early, or no longer possible, does not block later ones.
        waiting = [one for one in await proposal_store.list_waiting(connection, account.id) if act in (None, one.act)]
    if not waiting:
        raise errors.NotFound(f"name: nothing waits for a second operator on {name}")
    if code is not None:
        waiting = [one for one in waiting if name_proposal(one) == code] or waiting[:1]
    if len(waiting) > 1:
        acts = ", ".join(one.act for one in waiting)
        raise errors.BadRequest(f"act: several proposals wait on {name}: say which is meant by --act ({acts})")
    proposal = waiting[0]
    check_confirmation(proposal, context.operator, context.clock.real_now())
    if context.needs_second_login and (
        logins := await proposal_store.read_logins(context.pool, account.id, proposal.act)
    ):
        check_second_login("confirm", *logins)
    check_reading(proposal, code)
    await _ACTS[proposal.act](context, writes, account, proposal)
    return account, proposal
