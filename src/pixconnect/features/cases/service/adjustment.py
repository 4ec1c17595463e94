"""Adjustments for a case without a recorded fact; and proposals of all kinds: listed, confirmed and executed.

One operator proposes, another confirms. A confirmation is one transaction, so a crash in it has done nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.features.allowances.service import allow_more
from pixconnect.features.cases import rules
from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Adjustment, AdjustmentKind, Case, Side, announce_adjustment
from pixconnect.features.cases.service import day_case as returned_line
from pixconnect.features.cases.service.answer import answer_case
from pixconnect.features.cases.service.case_ending import end_by_case
from pixconnect.features.cases.service.separation import separate_lines
from pixconnect.features.cases.tables import ADJUSTMENTS, list_adjustments
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service.closing import close_account
from pixconnect.features.institutions.service.day import list_waiting
from pixconnect.features.institutions.service.proposing import (
    confirming,
    find_account_of,
    lock_case,
    lock_to_propose,
    record_confirmed,
    release_key,
)
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.context import Core, Operator, Writer, write_alone
from pixconnect.kernel.flows.holder import raise_limits
from pixconnect.kernel.flows.ledger import lock_balances
from pixconnect.kernel.rules.ledger import Cause
from pixconnect.kernel.rules.proposal import Proposal, check_confirmation
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.writing.batch import Batch
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection


class WantedAdjustment(Struct, frozen=True, kw_only=True):
    """An operator's wanted adjustment of a case: an entry, the opposite of one, or a write-off by the house."""

    case_id: int
    kind: AdjustmentKind
    amount_cents: int | None = None
    """``None`` is everything left."""
    holder_id: int | None = None
    """``None`` is the case's."""
    undone_id: int | None = None
    """The adjustment to undo."""
    returns: str | None = None
    """The end-to-end id of the transfer that a line returns, if the line does not name it."""
    line: str | None = None
    """The id of a line that returns a transfer, which is recorded instead of an entry."""


class _Step(Struct, frozen=True, kw_only=True):
    holder_id: int
    kind: AdjustmentKind
    direction: Side
    account: rules.SettledWith = "available"
    amount_cents: int
    opposite_of: int | None = None


async def propose_adjustment(context: Operator, wanted: WantedAdjustment) -> Proposal:
    """Propose an adjustment; nothing moves before another operator confirms it on the case's account.

    Raises:
        NotFound: The case or its adjustment does not exist, or its account was removed.
        BadRequest: The case has its own id, has ended, has no or a smaller amount, or nothing is to be written off; the account
            is closed, or the holder is not on it.
    """
    async with write_alone(context.pool) as connection:
        await lock_to_propose(connection, wanted.case_id)
        case = await lock_case(connection, wanted.case_id)
        _check_kind(case)
        account = await find_account_of(connection, case)
        _refuse_closed(account)
        if wanted.returns is not None or wanted.line is not None:
            returned = await returned_line.plan_return(connection, account, case, wanted.returns, wanted.line)
            said = dict[str, str | int](case_id=case.id, kind=wanted.kind, **returned)
            return await _propose(context, connection, account, said)
        await _refuse_waiting(connection, account, case, wanted)
        steps = _plan(case, account, await list_adjustments(connection, case.id), wanted)
        await _check_holders(connection, account, steps)
        said = dict[str, str | int](case_id=case.id, kind=wanted.kind, amount_cents=steps[0].amount_cents)
        said["direction"], said["holder_id"] = steps[0].direction, wanted.holder_id or steps[0].holder_id
        if wanted.undone_id is not None:
            said["undone_id"] = wanted.undone_id
        return await _propose(context, connection, account, said)


async def _propose(
    context: Operator, connection: Connection, account: InstitutionAccount, said: Mapping[str, str | int]
) -> Proposal:
    proposal = make_proposal(context, "adjust", said, institution_id=account.id)
    return await propose(context, connection, "case adjust", f"case {said['case_id']}", proposal)


async def adjust_case(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Post the proposed adjustment, as far as it is still within its case, and end the case when nothing of it is left."""
    if returned_line.RETURNS in proposal.contents:
        await returned_line.record_return(context, writes, proposal)
        return
    wanted = msgspec.convert(proposal.contents, WantedAdjustment)
    async with confirming(context, proposal) as (connection, account):
        _refuse_closed(account)
        case = await lock_case(connection, wanted.case_id)
        _check_kind(case)
        await _refuse_waiting(connection, account, case, wanted)
        made = await list_adjustments(connection, case.id)
        # Planned again: the case may have become smaller, or ended, while the proposal waited.
        steps = _plan(case, account, made, wanted)
        await _check_holders(connection, account, steps)
        work = await lock_balances(Batch(steps, connection, context.clock))
        added = [_post(work, case.id, step, proposal.proposed_by, context.operator) for step in steps]
        await work.write()
        if case.ended_at is None and _sum(made) + _sum(added) == case.amount_cents:
            await case_store.end(
                connection, [case.id], "adjusted", context.operator, f"{wanted.kind}, by two operators"
            )
        await record_confirmed(context, connection, account, proposal, added[-1])


def _refuse_closed(account: InstitutionAccount) -> None:
    if account.state == "closed":
        # It has nothing, and incoming money could never leave it.
        raise errors.BadRequest(f"case: the account {account.name} is closed: nothing is adjusted on it any more")


async def _check_holders(connection: Connection, account: InstitutionAccount, steps: Sequence[_Step]) -> None:
    lying = await account_store.list_lying_on(connection, account.id)
    for step in steps:
        if step.holder_id not in lying:
            raise errors.BadRequest(f"holder_id: holder {step.holder_id} does not lie on the account {account.name}")


def _check_kind(case: Case) -> None:
    if case.kind != "day":
        raise errors.BadRequest(
            f"case: a case of kind {case.kind} is not adjusted: the missing fact has an id: record it under that"
        )


async def _refuse_waiting(
    connection: Connection, account: InstitutionAccount, case: Case, wanted: WantedAdjustment
) -> None:
    """Refuse a new entry while a line of the day waits, since it may be the same money."""
    if wanted.undone_id is not None or wanted.kind == "written_off":
        return
    waiting = await list_waiting(connection, account.id, date.fromisoformat(case.name))
    if waiting:
        raise errors.BadRequest(
            f"case: line {waiting[0].item_id} of {case.name} waits: record what it is before the rest is adjusted"
        )


def _plan(case: Case, account: InstitutionAccount, made: Sequence[Adjustment], wanted: WantedAdjustment) -> list[_Step]:
    if wanted.undone_id is not None:
        return [_plan_opposite(made, wanted.undone_id, wanted.kind)]
    if wanted.kind == "written_off":
        return _plan_write_off(made, account.house_id)
    if case.ended_at is not None:
        raise errors.BadRequest("case: it has ended")
    if case.amount_cents is None:
        raise errors.BadRequest("case: nothing of it is left to be adjusted")
    case_cents = case.amount_cents
    left_cents = case_cents - _sum(made)
    amount_cents = abs(left_cents) if wanted.amount_cents is None else wanted.amount_cents
    direction: Side = "IN" if case_cents > 0 else "OUT"
    rules.check_bound(case_cents, _sum(made), amount_cents, direction)
    return [
        _Step(
            holder_id=wanted.holder_id or case.holder_id or account.house_id,
            kind=wanted.kind,
            direction=direction,
            amount_cents=amount_cents,
        )
    ]


def _plan_opposite(made: Sequence[Adjustment], undone_id: int, kind: AdjustmentKind) -> _Step:
    undone = {one.id: one for one in made if one.account == "available" and one.opposite_of is None}.get(undone_id)
    if undone is None or undone_id in {one.opposite_of for one in made}:
        raise errors.NotFound(f"undo: the case has no adjustment {undone_id} that stands")
    # If it were undone after that, the house would have paid for a difference that no longer exists.
    if any(one.account == "settlement" and one.holder_id == undone.holder_id for one in made):
        raise errors.BadRequest("undo: the house has written it off")
    return _Step(
        holder_id=undone.holder_id,
        kind=kind,
        direction=rules.turn(undone.direction),
        amount_cents=undone.amount_cents,
        opposite_of=undone.id,
    )


def _plan_write_off(made: Sequence[Adjustment], house_id: int) -> list[_Step]:
    """Post the opposite on the holder, the same on the house, and settle it there."""
    undone = {one.opposite_of for one in made}
    standing = [one for one in made if one.account == "available" and one.opposite_of is None and one.id not in undone]
    moved = [one for one in standing if one.holder_id != house_id]
    steps = [_plan_opposite(made, one.id, "written_off") for one in moved]
    steps += [
        _Step(holder_id=house_id, kind="written_off", direction=one.direction, amount_cents=one.amount_cents)
        for one in moved
    ]
    # The house may have written off a part of it before.
    settled_cents = sum(one.signed_cents for one in made if one.account == "settlement")
    left_cents = _sum(made) - settled_cents
    if not left_cents:
        raise errors.BadRequest("case: nothing of it is adjusted and not written off")
    last = _Step(
        holder_id=house_id,
        kind="written_off",
        direction="IN" if left_cents > 0 else "OUT",
        account="settlement",
        amount_cents=abs(left_cents),
    )
    return [*steps, last]


def _post(work: UnitOfWork, case_id: int, step: _Step, proposed_by: str, confirmed_by: str) -> Adjustment:
    holder_id, accounts = step.holder_id, rules.accounts_of(step.direction, step.account)
    lacking_cents = 0
    if step.account == "available":
        lacking_cents = rules.find_lacking(work.balances[holder_id], step.direction, step.amount_cents)
    entry_id = deficit_entry_id = None
    # First the available money: the rest is owed only when nothing is left.
    if step.amount_cents > lacking_cents:
        cause = Cause("adjustment", step.account)
        entry_id = work.post(holder_id, *accounts, step.amount_cents - lacking_cents, cause).id
    if lacking_cents:
        cause = Cause("adjustment", step.account, entry_id)
        deficit_entry_id = work.post(holder_id, "deficit", "difference", lacking_cents, cause).id
    adjustment = Adjustment(
        id=errors.require(entry_id or deficit_entry_id, "it is of an amount"),
        holder_id=holder_id,
        case_id=case_id,
        kind=step.kind,
        direction=step.direction,
        account=step.account,
        amount_cents=step.amount_cents,
        deficit_cents=lacking_cents,
        entry_id=entry_id,
        deficit_entry_id=deficit_entry_id,
        opposite_of=step.opposite_of,
        proposed_by=proposed_by,
        confirmed_by=confirmed_by,
        created_at=work.now,
    )
    work.put(ADJUSTMENTS, adjustment)
    # A move between the difference and the settlement alone leaves the house's money unchanged.
    if step.account == "available":
        work.announce(announce_adjustment, adjustment)
    return adjustment


def _sum(made: Sequence[Adjustment]) -> int:
    return sum(one.signed_cents for one in made if one.account == "available")


# Proposals of all kinds: listed, and executed once another operator confirms them by code.

KINDS: Final[Mapping[str, Callable[[Operator, Writer, Proposal], Awaitable[None]]]] = dict(
    close=close_account,
    allow=allow_more,
    adjust=adjust_case,
    decide=end_by_case,
    release=release_key,
    answer=answer_case,
    separate=separate_lines,
    limits=raise_limits,
)
"""Per act: checks the proposal again, executes it, and confirms it in the same transaction."""


async def list_proposals(context: Core) -> list[tuple[str, Proposal]]:
    """List proposals that wait for a second operator, oldest first; each with its account or holder."""
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
    ]


async def confirm_proposal(context: Operator, writes: Writer, code: str) -> Proposal:
    """Execute another operator's proposal.

    Args:
        context: Of the confirming operator.
        writes: Writes money.
        code: The code of the proposal that the operator has read.

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
                "(PIXCONNECT_OPERATOR_DATABASE_URL)"
            )
    await KINDS[proposal.act](context, writes, proposal)
    return proposal
