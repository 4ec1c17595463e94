"""Revises and removes charges that are open at institutions: durable before it is asked for, and known before it is shown.

::

    [ what is wanted ] ─► how is it there? ─► ask, at most 3 s ─► [ it is so here too, with its events ] ─► answer
                                  │ paid: the payment wins    │ nobody knows: 504, and a worker looks and asks again
                                  └ nothing was sent: 503     └ certainly refused

A charge that can still be paid there never looks removed here.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Final

import structlog
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.charge_change import (
    ABSENT_FOR,
    ChargeChange,
    find_known_refusal,
    is_done_there,
    keep_caller,
    write_terms,
)
from pixconnect.domain.institutions.charge_opening import OPENING_TIMEOUT_S, TAKEN_FOR, WORKER_AFTER, wait_for
from pixconnect.domain.institutions.institution import (
    CertainRefusal,
    Institution,
    InstitutionUnavailable,
    NotSent,
    OpenAccount,
    OpenedCharge,
    OpeningAnswer,
    UnknownOutcome,
)
from pixconnect.domain.money import charge as charge_rules
from pixconnect.domain.money.charge import Charge, Removal, announce_charge
from pixconnect.domain.money.charge_contents import ChargeContents, say_the_same
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.identity.origin import ORIGINS, Asked
from pixconnect.store.institutions import charge_change as change_store
from pixconnect.store.institutions import charge_opening as opening_store
from pixconnect.store.money import charge as charge_store
from pixconnect.usecases.frame.context import Context, or_unknown, write_alone
from pixconnect.usecases.money.charge_moves import revise_charge
from pixconnect.usecases.money.charge_opening import DUE_MAX, LOOK_EVERY_S, RefusedByInstitution, require_account
from pixconnect.writing.batch import Batch
from pixconnect.writing.unit_of_work import UnitOfWork, begin_work

PAID_THERE: Final = CertainRefusal(code="paid", reason="it is paid at the institution", member="status")
STATIC_CODE: Final = CertainRefusal(
    code="static",
    reason="it was answered with a static code, which nobody can take back: it ends at its expiry",
    member="status",
)

_log = structlog.get_logger(__name__)


async def change_there(
    context: Context,
    caller: Caller,
    charge: Charge,
    *,
    contents: ChargeContents | None = None,
    removal: Removal | None = None,
) -> Charge:
    """Revise a charge at its institution, or remove it there; only then it is so here.

    Raises:
        RefusedByInstitution: The institution refuses it, or it may not be changed.
        ServiceUnavailable: The account is paused, another change is under way, or nothing was sent; nothing was done.
        OutcomeUnknown: The institution has not answered in time; the same request gets the outcome once it is known.
    """
    opened = await require_account(context, _account_of(charge))
    if contents is not None:
        fault = find_known_refusal(opened.institution.traits, contents)
        if fault is not None:
            raise RefusedByInstitution(fault)
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
        return errors.require(found, "what says this already is there")
    if not is_ours:
        return await _await_end(context, change)
    try:
        with or_unknown(_tell_unknown(change)):
            async with asyncio.timeout(OPENING_TIMEOUT_S):
                answer = await _carry_out(context.pool, opened.institution, change)
    except TimeoutError:
        answer = UnknownOutcome(reason=f"no answer within {OPENING_TIMEOUT_S:g} s")
    return await _answer_caller(context, change, answer)


def want_change(
    charge: Charge,
    *,
    contents: ChargeContents | None = None,
    removal: Removal | None = None,
    caller: Caller | None = None,
) -> ChargeChange:
    """What is wanted of a charge; who asks for it first sets when it is due."""
    return ChargeChange(
        id=0,
        charge_id=charge.id,
        holder_id=charge.holder_id,
        institution_id=_account_of(charge),
        txid=charge.txid,
        kind="revise" if removal is None else "remove",
        contents=contents,
        removal=removal,
        # The client of a holder that has succeeded the charge's asks in that one's name.
        asked_by=None if caller is None else keep_caller(structs.replace(caller, holder_id=charge.holder_id)),
        calls_count=0,
        due_at=charge.modified_at,
        created_at=charge.modified_at,
    )


async def begin_change(
    connection: Connection, charge: Charge, wanted: ChargeChange
) -> tuple[ChargeChange | None, bool]:
    """Make a change durable under the lock of its charge.

    Returns:
        It, and that it is the caller's to ask for; the one that is under way, if it wants the same; ``None`` if the charge says
        this by now.

    Raises:
        RefusedByInstitution: The charge may not be changed any more.
        ServiceUnavailable: Another change is under way.
    """
    locked, _ = await charge_store.lock(connection, [(charge.id, charge.holder_id)])
    under_way = await change_store.find_under_way(connection, charge.id, charge.holder_id)
    if under_way is not None:
        if under_way.wants_the_same(wanted):
            return under_way, False
        if under_way.kind != "withdraw":
            raise errors.ServiceUnavailable("another change of this charge is under way at the institution")
    opening = await opening_store.read(connection, charge.id, charge.holder_id)
    if opening is not None and opening.reference is not None:
        raise RefusedByInstitution(STATIC_CODE)
    found = locked[charge.id, charge.holder_id]
    if wanted.contents is not None and say_the_same(wanted.contents, charge_rules.read_contents(found)):
        return None, False
    if not charge_rules.may_be_changed(found):
        raise RefusedByInstitution(CertainRefusal(code="status", reason=f"it is {found.status}", member="status"))
    return await change_store.insert(connection, wanted), True


async def go_on_changing(context: Context, opened: OpenAccount) -> int:
    """Ask about the changes of an account that are due, and answer how many there were; a defect stops none of the others."""
    began_at = context.clock.real_now()
    for count in range(DUE_MAX):
        # One by one: each is put off from when it is asked about.
        again_at = context.clock.real_now() + TAKEN_FOR
        change = await change_store.take_due(context.pool, opened.account.id, began_at, again_at)
        if change is None:
            return count
        try:
            answer = await _carry_out(context.pool, opened.institution, change)
            await _conclude(context, change, answer)
        except (*DATABASE_FAILED, errors.PixConnectError):
            raise
        except Exception as error:  # noqa: BLE001  what one change meets must not stop the others
            _log.exception("a change of a charge met a defect", change_id=change.id, reason=type(error).__name__)
    return DUE_MAX


async def _carry_out(pool: Pool, institution: Institution, change: ChargeChange) -> OpeningAnswer:
    """Look how it is there; where it is not as wanted, ask for it."""
    has_due_date = await _has_due_date(pool, change)
    try:
        there = await institution.read_charge(change.txid, has_due_date=has_due_date)
    except InstitutionUnavailable as error:
        return NotSent(reason=error.reason, retry_after=error.retry_after)
    if there is None:
        return UnknownOutcome(reason="the institution knows no such charge")
    if there.status != "active" or is_done_there(change, there):
        return there
    if change.revision_there is None and not await change_store.note_revision(pool, change, there.revision):
        return UnknownOutcome(reason="somebody else asks by now")
    if change.contents is None:
        return await institution.remove_charge(change.txid, has_due_date=has_due_date)
    return await institution.revise_charge(write_terms(change.txid, change.contents))


async def _has_due_date(pool: Pool, change: ChargeChange) -> bool:
    if change.contents is not None:
        return change.contents.due is not None
    charge = await charge_store.find_by_id(pool, change.holder_id, change.charge_id)
    return errors.require(charge, "what is changed is there").due_on is not None


async def _conclude(context: Context, change: ChargeChange, answer: OpeningAnswer) -> None:
    match answer:
        case OpenedCharge() if _says_the_end(change, answer):
            await _finish(context, change, answer)
        case CertainRefusal() if change.kind == "withdraw":
            await _put_off(context, change, answer.reason)
        case CertainRefusal():
            async with write_alone(context.pool) as connection:
                await change_store.end(connection, change, "refused", answer.reason)
        case OpenedCharge():
            await _put_off(context, change, "it is not as wanted there")
        case NotSent(reason=reason) | UnknownOutcome(reason=reason):
            is_over = context.clock.real_now() - change.created_at >= ABSENT_FOR
            # What was never opened needs not be withdrawn; before that time it may still arrive.
            if change.kind == "withdraw" and is_over and reason == "the institution knows no such charge":
                async with write_alone(context.pool) as connection:
                    await change_store.end(connection, change, "done", reason)
            else:
                await _put_off(context, change, reason)


async def _answer_caller(context: Context, change: ChargeChange, answer: OpeningAnswer) -> Charge:
    # Nothing was sent if it could not even be read, or was turned away; unless a worker asks by now.
    if isinstance(answer, NotSent):
        with or_unknown(_tell_unknown(change)):
            async with write_alone(context.pool) as connection:
                is_ended = await change_store.end(connection, change, "given_up", answer.reason)
        if is_ended:
            wait_s = 1 if answer.retry_after is None else max(1, round(answer.retry_after.total_seconds()))
            raise errors.ServiceUnavailable(
                f"the institution could not be asked: {answer.reason}; nothing was done", retry_after_s=wait_s
            )
    elif not isinstance(answer, UnknownOutcome):
        with or_unknown(_tell_unknown(change)):
            await _conclude(context, change, answer)
    return await _read_end(context, change)


async def _await_end(context: Context, change: ChargeChange) -> Charge:
    """Wait for another request's or a worker's change, as long as for one of our own."""
    until_s = context.clock.monotonic_s() + OPENING_TIMEOUT_S
    while context.clock.monotonic_s() < until_s:
        with or_unknown(_tell_unknown(change)):
            found = await change_store.read(context.pool, change.id)
        if found is not None and found.state != "asked":
            break
        await asyncio.sleep(LOOK_EVERY_S)
    return await _read_end(context, change)


async def _read_end(context: Context, change: ChargeChange) -> Charge:
    """What became of it, for who asked."""
    with or_unknown(_tell_unknown(change)):
        found = errors.require(await change_store.read(context.pool, change.id), "no change is ever forgotten")
    match found.state:
        case "done":
            with or_unknown(_tell_unknown(change)):
                charge = await charge_store.find_by_id(context.pool, change.holder_id, change.charge_id)
            return errors.require(charge, "what is changed is there")
        case "overtaken":
            raise RefusedByInstitution(PAID_THERE)
        case "refused":
            raise RefusedByInstitution(CertainRefusal(code="refused", reason=found.reason or ""))
        case "given_up":
            raise errors.ServiceUnavailable("the institution could not be asked; nothing was done")
        case "asked":
            raise _tell_unknown(change)


def _tell_unknown(change: ChargeChange) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        f"the institution has not answered yet whether the charge of txid {change.txid} is changed: the same request "
        "gets it once that is known"
    )


def _says_the_end(change: ChargeChange, there: OpenedCharge) -> bool:
    if there.status != "active":
        return True
    # What a revision answers is how it is; that it is as asked, the adapter has seen.
    return change.contents is not None and there.is_as_asked(write_terms(change.txid, change.contents))


async def _finish(context: Context, change: ChargeChange, there: OpenedCharge) -> None:
    """Write what it is there: changed as wanted, paid, or removed by somebody else."""
    async with context.writes.transaction() as batch:
        # Locked before we take the ids, as for expiry.
        charges, _ = await charge_store.lock(batch.connection, [(change.charge_id, change.holder_id)])
        locked = await change_store.lock(batch.connection, change.id)
        if locked is None or locked.state != "asked":
            return
        charge = charges[change.charge_id, change.holder_id]
        if there.status == "paid" or not charge_rules.may_be_changed(charge):
            # The reading of what came in brings the payment.
            state = "done" if change.kind == "withdraw" and there.status != "paid" else "overtaken"
            await change_store.end(batch.connection, locked, state)
            return
        work = await begin_work(batch)
        if change.kind == "withdraw":
            await change_store.end(batch.connection, locked, "done")
        elif there.status == "active":
            await change_store.end(batch.connection, locked, "done")
            _revise(work, charge, change, there)
        else:
            await _remove(work, batch, charge, locked, there)
        await work.write()


def _revise(work: UnitOfWork, charge: Charge, change: ChargeChange, there: OpenedCharge) -> None:
    wanted = errors.require(change.contents, "a revision says something")
    contents = structs.replace(wanted, lifetime_s=there.lifetime_s)
    after = charge_rules.revise_charge(charge, contents, max(work.now, charge.modified_at))
    revise_charge(work, charge, after)
    _note_caller(work, change)
    if after.status != charge.status:
        work.announce(announce_charge, after, "qrcode.pending")


async def _remove(
    work: UnitOfWork, batch: Batch[Any], charge: Charge, change: ChargeChange, there: OpenedCharge
) -> None:
    removal: Removal = "REMOVED_BY_RECEIVER" if there.status == "removed_by_us" else "REMOVED_BY_PSP"
    if change.kind == "remove":
        await change_store.end(batch.connection, change, "done")
        removal = change.removal or removal
        _note_caller(work, change)
    else:
        await change_store.end(batch.connection, change, "refused", "the charge was removed at the institution")
        await note_removal(batch.connection, charge, removal, change.created_at)
    remove_locked(work, charge, removal)


async def note_removal(connection: Connection, charge: Charge, removal: Removal, now: datetime) -> None:
    """Keep that a charge is removed there without our asking, before it is removed here."""
    wanted = want_change(charge, removal=removal)
    await change_store.insert(connection, structs.replace(wanted, state="done", due_at=now, created_at=now))


def remove_locked(work: UnitOfWork, charge: Charge, status: Removal) -> Charge:
    """Remove a charge that is locked; an event tells callers of the contract's door once that it has expired."""
    removed = charge_rules.remove_charge(charge, status, max(work.now, charge.modified_at))
    revise_charge(work, charge, removed)
    if charge.status == "PENDING":
        work.announce(announce_charge, removed, "qrcode.expired")
    return removed


def _note_caller(work: UnitOfWork, change: ChargeChange) -> None:
    if change.asked_by is not None:
        work.put(ORIGINS, Asked("charge_change", change.charge_id, work.now, change.asked_by))


async def _put_off(context: Context, change: ChargeChange, reason: str) -> None:
    again_at = context.clock.real_now() + wait_for(change.calls_count)
    await change_store.ask_later(context.pool, change.id, again_at, reason)


def _account_of(charge: Charge) -> int:
    return errors.require(charge.institution_id, "a charge that is open at an institution")
