"""Revises and removes charges at institutions: ``pending_call`` makes the change there, which then applies here.

A charge that can still be paid at the institution never looks removed here. If it is paid there, the payment wins.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec import structs

from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.pending_call import (
    ABSENT_FOR,
    WORKER_AFTER,
    ChargeChange,
    find_known_refusal,
    is_done_at_institution,
    strip_rights,
    write_terms,
)
from pixconnect.features.institutions.service import pending_call as calls
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.features.institutions.tables.pending_call import CHANGES
from pixconnect.kernel.flows.charge import revise_charge
from pixconnect.kernel.flows.context import Context, write_alone
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, Removal, announce_charge
from pixconnect.kernel.rules.charge_contents import ChargeContents, are_equivalent
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.writing.batch import Batch
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

PAID_THERE: Final = port.CertainRefusal(code="paid", reason="it is paid at the institution", member="status")
ABSENT: Final = port.UnknownOutcome(reason="the institution knows no such charge")
STATIC_CODE: Final = port.CertainRefusal(
    code="static",
    reason="it was answered with a static code, which cannot be withdrawn: it ends at its expiry",
    member="status",
)


async def change_at_institution(
    context: Context, caller: Caller, charge: Charge, *, contents: ChargeContents | None = None, removal: Removal | None = None
) -> Charge:
    """Revise a charge at its institution, or remove it there; the change applies here afterwards.

    Raises:
        RefusedByInstitution: The institution refuses it, or it may not be changed.
        ServiceUnavailable: The account is paused, another change is pending, or nothing was sent; nothing was done.
        OutcomeUnknown: The institution has not answered in time; the same request gets the outcome once it is known.
    """
    opened = await calls.require_account(context, _account_of(charge))
    if contents is not None and (fault := find_known_refusal(opened.institution.traits, contents)) is not None:
        raise calls.RefusedByInstitution(fault)
    now = context.clock.real_now()
    wanted = structs.replace(
        want_change(charge, contents=contents, removal=removal, caller=caller),
        calls_count=1,
        due_at=now + WORKER_AFTER,
        created_at=now,
    )
    async with write_alone(context.pool) as connection:
        change, is_ours = await begin_change(connection, charge, wanted)
    if change is None:
        found = await charge_store.find_by_id(context.pool, charge.holder_id, charge.id)
        return errors.require(found, "an unchanged charge exists")
    if not is_ours:
        return await calls.await_end(context, CHANGE_CALLS, change)
    answer = await calls.call_once(CHANGE_CALLS, change, _carry_out(context, opened.institution, change))
    return await calls.answer_caller(context, CHANGE_CALLS, change, answer)


def want_change(
    charge: Charge, *, contents: ChargeContents | None = None, removal: Removal | None = None, caller: Caller | None = None
) -> ChargeChange:
    """Make the wanted change of a charge; the first requester determines when it is due."""
    return ChargeChange(
        id=0,
        charge_id=charge.id,
        holder_id=charge.holder_id,
        institution_id=_account_of(charge),
        txid=charge.txid,
        kind="revise" if removal is None else "remove",
        contents=contents,
        removal=removal,
        # The client of the charge's holder's successor acts for that holder.
        asked_by=None if caller is None else strip_rights(structs.replace(caller, holder_id=charge.holder_id)),
        calls_count=0,
        due_at=charge.modified_at,
        created_at=charge.modified_at,
    )


async def begin_change(connection: Connection, charge: Charge, wanted: ChargeChange) -> tuple[ChargeChange | None, bool]:
    """Record a change under the lock of its charge.

    Returns:
        It, and whether the caller makes the call; the pending one, if it wants the same; ``None`` if the charge has this state.

    Raises:
        RefusedByInstitution: The charge may not be changed any more.
        ServiceUnavailable: Another change is pending.
    """
    locked, _ = await charge_store.lock(connection, [(charge.id, charge.holder_id)])
    if (under_way := await call_store.find_under_way(connection, charge.id, charge.holder_id)) is not None:
        if under_way.wants_the_same(wanted):
            return under_way, False
        if under_way.kind != "withdraw":
            raise errors.ServiceUnavailable("another change of this charge is under way at the institution")
    opening = await call_store.find_opening_of_charge(connection, charge.id, charge.holder_id)
    if opening is not None and opening.reference is not None:
        raise calls.RefusedByInstitution(STATIC_CODE)
    found = locked[charge.id, charge.holder_id]
    if wanted.contents is not None and are_equivalent(wanted.contents, charge_rules.read_contents(found)):
        return None, False
    if not charge_rules.may_be_changed(found):
        raise calls.RefusedByInstitution(port.CertainRefusal(code="status", reason=f"it is {found.status}", member="status"))
    return await call_store.insert_change(connection, wanted), True


async def _carry_out(context: Context, institution: port.Institution, change: ChargeChange) -> port.OpeningAnswer:
    if change.contents is None:
        charge = await charge_store.find_by_id(context.pool, change.holder_id, change.charge_id)
        has_due_date = errors.require(charge, "a changed charge exists").due_on is not None
    else:
        has_due_date = change.contents.due is not None
    try:
        there = await institution.read_charge(change.txid, has_due_date=has_due_date)
    except port.InstitutionUnavailable as error:
        return port.NotSent(reason=error.reason, retry_after=error.retry_after)
    if there is None:
        return ABSENT
    if there.status != "active" or is_done_at_institution(change, there):
        return there
    if change.revision_there is None and not await call_store.note_revision(context.pool, change, there.revision):
        return port.UnknownOutcome(reason="another process is calling by now")
    if change.contents is None:
        return await institution.remove_charge(change.txid, has_due_date=has_due_date)
    return await institution.revise_charge(write_terms(change.txid, change.contents))


async def _settle(context: Context, change: ChargeChange, answer: port.OpeningAnswer) -> port.UnknownOutcome | None:
    match answer:
        case port.OpenedCharge() if _shows_the_end(change, answer):
            await _finish(context, change, answer)
        case port.OpenedCharge():
            return port.UnknownOutcome(reason="the charge at the institution differs from the wanted one")
        case port.CertainRefusal(reason=reason) if change.kind != "withdraw":
            async with write_alone(context.pool) as connection:
                await CHANGES.end(connection, change, "refused", reason)
        case port.CertainRefusal(reason=reason) | port.NotSent(reason=reason) | port.UnknownOutcome(reason=reason):
            is_over = context.clock.real_now() - change.created_at >= ABSENT_FOR
            # A charge that was never opened need not be withdrawn; before that time it may still arrive.
            if change.kind != "withdraw" or not is_over or answer != ABSENT:
                return port.UnknownOutcome(reason=reason)
            async with write_alone(context.pool) as connection:
                await CHANGES.end(connection, change, "done", reason)
    return None


def _explain_end(ended: ChargeChange) -> Exception | None:
    match ended.state:
        case "overtaken":
            return calls.RefusedByInstitution(PAID_THERE)
        case "refused":
            return calls.RefusedByInstitution(port.CertainRefusal(code="refused", reason=ended.reason or ""))
        case "given_up":
            return errors.ServiceUnavailable("the institution could not be asked; nothing was done")
        case "done" | "asked":
            return None


def _unknown_outcome(change: ChargeChange) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        f"the institution has not answered yet whether the charge of txid {change.txid} is changed: the same request "
        "gets it once that is known"
    )


def _shows_the_end(change: ChargeChange, there: port.OpenedCharge) -> bool:
    if there.status != "active":
        return True
    # A revision's answer is the charge's state; the adapter has checked that it is as wanted.
    return change.contents is not None and there.is_as_asked(write_terms(change.txid, change.contents))


async def _finish(context: Context, change: ChargeChange, there: port.OpenedCharge) -> None:
    """Write its state at the institution: changed as wanted, paid, or removed by a person."""
    async with context.writes.transaction() as batch:
        # Locked before we take the ids, as for expiry.
        charges, _ = await charge_store.lock(batch.connection, [(change.charge_id, change.holder_id)])
        locked = await CHANGES.lock(batch.connection, change)
        if locked is None or locked.state != "asked":
            return
        charge = charges[change.charge_id, change.holder_id]
        if there.status == "paid" or not charge_rules.may_be_changed(charge):
            # The reading of credits brings the payment.
            state = "done" if change.kind == "withdraw" and there.status != "paid" else "overtaken"
            await CHANGES.end(batch.connection, locked, state)
            return
        work = await begin_work(batch)
        if change.kind == "withdraw":
            await CHANGES.end(batch.connection, locked, "done")
        elif there.status == "active":
            await CHANGES.end(batch.connection, locked, "done")
            _revise(work, charge, change, there)
        else:
            await _remove(work, batch, charge, locked, there)
        await work.write()


def _revise(work: UnitOfWork, charge: Charge, change: ChargeChange, there: port.OpenedCharge) -> None:
    wanted = errors.require(change.contents, "a revision says something")
    contents = structs.replace(wanted, lifetime_s=there.lifetime_s)
    after = charge_rules.revise_charge(charge, contents, max(work.now, charge.modified_at))
    revise_charge(work, charge, after)
    _note_caller(work, change)
    if after.status != charge.status:
        work.announce(announce_charge, after, "qrcode.pending")


async def _remove(work: UnitOfWork, batch: Batch[Any], charge: Charge, change: ChargeChange, there: port.OpenedCharge) -> None:
    removal: Removal = "REMOVED_BY_RECEIVER" if there.status == "removed_by_us" else "REMOVED_BY_PSP"
    if change.kind == "remove":
        await CHANGES.end(batch.connection, change, "done")
        removal = change.removal or removal
        _note_caller(work, change)
    else:
        await CHANGES.end(batch.connection, change, "refused", "the charge was removed at the institution")
        await note_removal(batch.connection, charge, removal, change.created_at)
    remove_locked(work, charge, removal)


async def note_removal(connection: Connection, charge: Charge, removal: Removal, now: datetime) -> None:
    """Record that a charge was removed at the institution without our request, before it is removed here."""
    wanted = want_change(charge, removal=removal)
    await call_store.insert_change(connection, structs.replace(wanted, state="done", due_at=now, created_at=now))


def remove_locked(work: UnitOfWork, charge: Charge, status: Removal) -> Charge:
    """Remove a locked charge; its event reports it to callers of our own API as expired."""
    removed = charge_rules.remove_charge(charge, status, max(work.now, charge.modified_at))
    revise_charge(work, charge, removed)
    if charge.status == "PENDING":
        work.announce(announce_charge, removed, "qrcode.expired")
    return removed


def _note_caller(work: UnitOfWork, change: ChargeChange) -> None:
    if change.asked_by is not None:
        work.put(ORIGINS, Asked("charge_change", change.charge_id, work.now, change.asked_by))


def _account_of(charge: Charge) -> int:
    return errors.require(charge.institution_id, "a charge that is open at an institution")


CHANGE_CALLS: Final = calls.CallKind(
    rows=CHANGES, ask=_carry_out, settle=_settle, explain=_explain_end, unknown_outcome=_unknown_outcome
)
