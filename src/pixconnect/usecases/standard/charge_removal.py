"""Removes a charge, for its holder or an operator."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.charge_change import ChargeChange
from pixconnect.domain.money.charge import Charge, may_be_changed
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import charge_change as change_store
from pixconnect.store.money import charge as charge_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import Operator
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.money.charge_change import begin_change, remove_locked, want_change
from pixconnect.usecases.money.charge_opening import RefusedByInstitution
from pixconnect.writing.batch import Batch
from pixconnect.writing.unit_of_work import begin_work

WAIT_MAX_S: Final = 20.0
"""So long an operator waits for a worker and the institution."""
_LOOK_EVERY_S: Final = 0.2


async def remove_charge(context: Operator, holder_id: int, txid: str, wait_s: float = WAIT_MAX_S) -> Charge:
    """Remove a charge, so that nobody can pay it any more; its holder gets an event that it has expired.

    One that was opened at an institution is removed there, by a worker, and only then here.

    Raises:
        NotFound: There is no such charge.
        BadRequest: It cannot be removed.
        OutcomeUnknown: The institution has not confirmed it yet: workers go on, and until then it can be paid.
    """
    async with write_alone(context.pool) as connection:
        # Locked before we take the ids, as for expiry. We wake no other process: workers poll by themselves.
        charges, _ = await charge_store.lock_by_txid(connection, [(txid, holder_id)])
        charge = charges.get((txid, holder_id))
        if charge is None:
            raise errors.NotFound(f"txid: holder {holder_id} has no such charge")
        if not may_be_changed(charge):
            held = " and a payment of it was accepted" if charge.held_by is not None else ""
            raise errors.BadRequest(f"txid: the charge is {charge.status}{held}: it cannot be removed")
        if charge.institution_id is None:
            removed, change = await _remove_here(context, connection, charge), None
            before, after = {"status": charge.status}, {"status": removed.status}
        else:
            removed, change = charge, await _ask_there(context, connection, charge)
            before, after = {"status": charge.status}, {"asked": change.removal}
        await audit.record(
            context, connection, "operator charge remove", f"charge {charge.id}", before=before, after=after
        )
    return removed if change is None else await _await_removal(context, change, wait_s)


async def _remove_here(context: Operator, connection: Connection, charge: Charge) -> Charge:
    work = await begin_work(Batch[Any]((), connection, context.clock))
    removed = remove_locked(work, charge, "REMOVED_BY_PSP")
    await work.write()
    return removed


async def _ask_there(context: Operator, connection: Connection, charge: Charge) -> ChargeChange:
    now = context.clock.real_now()
    wanted = structs.replace(want_change(charge, removal="REMOVED_BY_PSP"), due_at=now, created_at=now)
    try:
        change, _ = await begin_change(connection, charge, wanted)
    except RefusedByInstitution as refused:
        raise errors.BadRequest(f"txid: the charge cannot be removed: {refused.refusal.reason}") from None
    return errors.require(change, "a removal is always a change")


async def _await_removal(context: Operator, change: ChargeChange, wait_s: float) -> Charge:
    until_s = context.clock.monotonic_s() + wait_s
    while context.clock.monotonic_s() < until_s:
        async with context.pool.acquire() as connection:
            found = errors.require(await change_store.read(connection, change.id), "no change is ever forgotten")
            if found.state == "done":
                charges, _ = await charge_store.lock(connection, [(change.charge_id, change.holder_id)])
                return charges[change.charge_id, change.holder_id]
        if found.state != "asked":
            reason = "it was paid at the institution" if found.state == "overtaken" else found.reason
            raise errors.BadRequest(f"txid: the charge was not removed: {reason}")
        await asyncio.sleep(_LOOK_EVERY_S)
    raise errors.OutcomeUnknown(
        "the institution has not confirmed yet that the charge is removed there: workers go on, and until then it can be paid"
    )
