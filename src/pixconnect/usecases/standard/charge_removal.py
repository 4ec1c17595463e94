"""Removes a charge, for its holder or an operator."""

from __future__ import annotations

from typing import Any

from pixconnect.domain.frame import errors
from pixconnect.domain.money import charge as charge_rules
from pixconnect.domain.money.charge import Charge, Removal, may_be_changed
from pixconnect.store.money import charge as charge_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.writing.batch import Batch
from pixconnect.writing.unit_of_work import UnitOfWork, begin_work


async def remove_charge(context: OperatorContext, holder_id: int, txid: str) -> Charge:
    """Remove a charge, so that nobody can pay it any more; its holder gets an event that it has expired."""
    async with write_alone(context.pool) as connection:
        # Locked before we take the ids, as for expiry. We wake no other process: workers poll by themselves.
        charges, _ = await charge_store.lock_by_txid(connection, [(txid, holder_id)])
        charge = charges.get((txid, holder_id))
        if charge is None:
            raise errors.NotFound(f"txid: holder {holder_id} has no such charge")
        if not may_be_changed(charge):
            held = " and a payment of it was accepted" if charge.held_by is not None else ""
            raise errors.BadRequest(f"txid: the charge is {charge.status}{held}: it cannot be removed")
        work = await begin_work(Batch[Any]((), connection, context.clock))
        removed = remove(work, charge, "REMOVED_BY_PSP")
        await work.write()
        before, after = {"status": charge.status}, {"status": removed.status}
        await audit.record(
            context, connection, "operator charge remove", f"charge {charge.id}", before=before, after=after
        )
    return removed


def remove(work: UnitOfWork, charge: Charge, status: Removal) -> Charge:
    """Remove a charge that is locked; an event tells callers of the contract's door once that it has expired."""
    removed = charge_rules.remove_charge(charge, status, max(work.now, charge.modified_at))
    work.changes.revise_charge(charge, removed)
    if charge.status == "PENDING":
        work.announce_charge(removed, "qrcode.expired")
    return removed
