"""Adjustments for a case without a recorded fact. One operator proposes, another confirms.

A payee's return of a transfer that only a line of the statement shows is recorded as a refund IN, and as no adjustment: its
line is matched, and the case ends by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.features.cases import rules
from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Adjustment, AdjustmentKind, Case, Side, announce_adjustment
from pixconnect.features.cases.service import day_case
from pixconnect.features.cases.tables import ADJUSTMENTS, list_adjustments
from pixconnect.features.institutions.rules.account import UNNAMED_ISPB, InstitutionAccount
from pixconnect.features.institutions.rules.joining import ItemJoin, RecordedItem
from pixconnect.features.institutions.rules.unmatched import OUTCOMES
from pixconnect.features.institutions.service import proposals
from pixconnect.features.institutions.service.day import find_unmatched, list_waiting
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.flows.incoming import RECEIVE_RETURNS, GivenBack
from pixconnect.kernel.rules.identifiers import is_return_id
from pixconnect.kernel.rules.ledger import Cause
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.rail import ReturnReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import IdBlocks
from pixconnect.kernel.writing.batch import Batch
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

_DIGEST_LENGTH: Final = 11


class WantedAdjustment(Struct, frozen=True, kw_only=True):
    """An operator's wanted adjustment of a case: an entry, the opposite of one, or a write-off by the house."""

    case_id: int
    kind: AdjustmentKind
    amount_cents: int | None = None  # ``None`` is everything left
    holder_id: int | None = None  # ``None`` is the case's
    undone_id: int | None = None
    returns: str | None = None  # the end-to-end id of the transfer that a line returns, if the line does not name it
    line: str | None = None  # the id of a line that returns a transfer, which is recorded instead of an entry


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
            is closed, or the holder is not on it; or a line cannot return the transfer.
    """
    async with write_alone(context.pool) as connection:
        await proposals.lock_to_propose(connection, wanted.case_id)
        case = await proposals.lock_case(connection, wanted.case_id)
        _check_kind(case)
        account = await proposals.find_account_of(connection, case)
        _refuse_closed(account)
        contents = dict[str, str | int](case_id=case.id, kind=wanted.kind)
        if wanted.returns is not None or wanted.line is not None:
            item, original = await _find_returned(connection, account, case, wanted.returns, wanted.line)
            contents |= dict(amount_cents=item.amount_cents, holder_id=original.holder_id, direction="IN", line=item.item_id)
            contents["returns"] = original.end_to_end_id
        else:
            await _refuse_changed(context, connection, account, case, wanted)
            steps = _plan(case, account, await list_adjustments(connection, case.id), wanted)
            await _check_holders(connection, account, steps)
            contents |= dict(amount_cents=steps[0].amount_cents, direction=steps[0].direction)
            contents["holder_id"] = wanted.holder_id or steps[0].holder_id
            if wanted.undone_id is not None:
                contents["undone_id"] = wanted.undone_id
        proposal = make_proposal(context, "adjust", contents, institution_id=account.id)
        return await propose(context, connection, "case adjust", f"case {case.id}", proposal)


async def adjust_case(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Post the proposed adjustment, as far as it is still within its case, and end the case when nothing of it is left."""
    if "returns" in proposal.contents:
        await _record_return(context, writes, proposal)
        return
    wanted = msgspec.convert(proposal.contents, WantedAdjustment)
    async with proposals.confirming(context, proposal) as (connection, account):
        _refuse_closed(account)
        case = await proposals.lock_case(connection, wanted.case_id)
        _check_kind(case)
        await _refuse_changed(context, connection, account, case, wanted)
        made = await list_adjustments(connection, case.id)
        # Planned again: the case may have become smaller, or ended, while the proposal waited.
        steps = _plan(case, account, made, wanted)
        if steps[0].direction != proposal.contents["direction"]:
            raise errors.BadRequest("case: its difference has the other sign since the proposal: propose it again")
        await _check_holders(connection, account, steps)
        work = await begin_money_work(Batch(steps, connection, context.clock))
        added = [_post(work, case.id, step, proposal.proposed_by, context.operator) for step in steps]
        await work.write()
        if case.ended_at is None and _sum(made) + _sum(added) == case.amount_cents:
            await case_store.end(connection, [case.id], "adjusted", context.operator, f"{wanted.kind}, by two operators")
        await proposals.record_confirmed(context, connection, account, proposal, added[-1])


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
            f"case: a case of kind {case.kind} is not adjusted: record the missing fact, or adjust the day that explains it"
        )


async def _refuse_changed(
    context: Operator, connection: Connection, account: InstitutionAccount, case: Case, wanted: WantedAdjustment
) -> None:
    """Refuse a new entry while a line of the day waits, since it may be the same money, or if the case is out of date."""
    if wanted.undone_id is not None or wanted.kind == "written_off":
        return
    day = date.fromisoformat(case.name)
    if waiting := await list_waiting(connection, account.id, day):
        raise errors.BadRequest(
            f"case: line {waiting[0].item_id} of {case.name} waits: record what it is before the rest is adjusted"
        )
    if not await day_store.list_days(connection, account.id, day, day):
        return
    # The worker compares cases each minute: since then an answer or a file may have posted the same money.
    span = await find_unmatched(connection, account, context.clock.now())
    differs = {one.name: one.amount_cents for one in day_case.list_differences(account, span)}
    if not span.is_cut and differs.get(case.name) != case.amount_cents:
        raise errors.BadRequest(f"case: the difference of {case.name} has changed: look at it again in a minute")


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
        _Step(holder_id=house_id, kind="written_off", direction=one.direction, amount_cents=one.amount_cents) for one in moved
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


async def _record_return(context: Operator, writes: Writer, proposal: Proposal) -> None:
    async with proposals.confirming(context, proposal) as (connection, account):
        _refuse_closed(account)
        case = await proposals.lock_case(connection, int(proposal.contents["case_id"]))
        # Checked once more: since the proposal a reading may have recorded it.
        contents = proposal.contents
        item, original = await _find_returned(connection, account, case, str(contents["returns"]), str(contents["line"]))
        # A line with only a day has no instant: the return is dated when it is recorded.
        at = item.settled_at or context.clock.now()
        report = ReturnReport(
            report_id=item.item_id,
            return_id=_name_return(item),
            original_end_to_end_id=original.end_to_end_id,
            amount_cents=item.amount_cents,
            reason="MD06",
            reported_at=at,
            settled_at=at,
        )
        given_back = GivenBack(
            holder_id=original.holder_id,
            original_id=original.id,
            report=report,
            refund_id=await IdBlocks(writes.pool).refund_id(),
            is_refusable=False,
        )
        (outcome,) = await RECEIVE_RETURNS.write(Batch([given_back], connection, context.clock))
        if isinstance(outcome, Exception) or outcome.misfit or outcome.acknowledgement is None:
            raise errors.BadRequest("confirm: a return of this name is recorded with other contents")
        recorded = (await refund_store.find_named(connection, [report.return_id], "IN"))[report.return_id]
        join = ItemJoin(item_id=item.item_id, key=("refund", recorded.id), by="name")
        await item_store.join(connection, account.id, [join])
        await proposals.record_confirmed(context, connection, account, proposal, report)
    await settle_items(writes, account, item.day)


async def _find_returned(
    connection: Connection, account: InstitutionAccount, case: Case, returns: str | None, line: str | None
) -> tuple[RecordedItem, Transfer]:
    if case.kind != "day" or case.ended_at is not None:
        raise errors.BadRequest("case: only a line of a day whose case is open gives a transfer back")
    waiting = await list_waiting(connection, account.id, date.fromisoformat(case.name))
    # A line that may be a balance, or is known under another name, moved no money as long as nobody says so.
    waiting = [item for item in waiting if OUTCOMES[item.waits or "new"].counts]
    items = [item for item in waiting if item.direction == "IN" and line in (None, item.item_id)]
    if len(items) != 1:
        raise errors.BadRequest(f"line: {len(items)} lines of {case.name} came in and wait: name one of them")
    (item,) = items
    name = returns or item.end_to_end_id
    if name is None:
        raise errors.BadRequest("returns: the line names no Pix; name the returned transfer by its end-to-end id")
    original = (await transfer_store.find_named(connection, [name], "OUT")).get(name)
    if original is None or original.institution_id != account.id or original.settled_at is None:
        raise errors.BadRequest(f"returns: no transfer {name} has left over {account.name}")
    left_cents = original.amount_cents - original.returned_cents
    if item.amount_cents > left_cents:
        raise errors.BadRequest(f"returns: {left_cents} cents of the transfer were not given back, and the line has more")
    return item, original


def _name_return(item: RecordedItem) -> str:
    """Return the network's name, or one that this line alone has."""
    for name in (item.return_id, item.end_to_end_id):
        if name is not None and is_return_id(name):
            return name
    digest = hashlib.sha256(f"{item.institution_id}|{item.item_id}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"D{UNNAMED_ISPB}{item.day:%Y%m%d}0000{digest}"
