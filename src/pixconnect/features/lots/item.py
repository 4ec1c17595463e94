"""Completes a lot's item in the transaction that writes its charge, so each item is done once.

If the worker dies before, the request stays; a second worker finds no request and does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from pixconnect.features.lots import tables as lot_store
from pixconnect.features.lots.rules import LotItem, Refusal
from pixconnect.features.lots.tables import ItemKey, LockedItem
from pixconnect.features.pix_api.rules import Violated, Violation
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.location import WITH_DUE_DATE
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

if TYPE_CHECKING:
    from pixconnect.features.pix_api.service.charge_write import ChargeWrite

NOTED: Final = (Violated, errors.RuleBroken, errors.NotFound)
"""Refusals of a charge that become its item's. After any other outcome its request stays."""


class ItemWrite(Struct, frozen=True, kw_only=True):
    key: ItemKey
    number: int
    is_first: bool
    """Whether its charge did not exist when the request was read."""
    refusal: Refusal = ()
    """The errors of its form, if any."""


class BatchItems(Struct):
    locked: Mapping[ItemKey, LockedItem]
    held: set[tuple[str, int]]
    """Txids, with their holders, that only requests of their lot may make or change now."""
    done: list[tuple[LotItem, int]]

    def check(self, write: ChargeWrite, charge: Charge | None, *, makes: bool) -> None:
        """Raise the reason against a write; ``makes`` if it would make a new charge."""
        if write.item is None:
            if (write.txid, write.holder_id) in self.held and (makes or charge is not None):
                reason = "este txid está em um lote, e lá a cobrança está EM_PROCESSAMENTO ou foi NEGADA"
                raise _refuse(write, reason)
            return
        if not self.is_open(write.item):
            raise errors.NotFound("this request of the lot was done already")
        if write.item.refusal:
            raise Violated(write.kind, write.item.refusal)
        if write.item.is_first and charge is not None:
            raise _refuse(write, "este txid já é de uma cobrança que não foi criada por este lote")

    def is_open(self, item: ItemWrite) -> bool:
        """Whether this request is pending, and the next of its item."""
        locked = self.locked.get(item.key)
        return (
            locked is not None
            and locked.next_number == item.number
            and (locked.item.charge_id is None) == item.is_first
        )

    def note(self, item: ItemWrite | None, outcome: Charge | errors.PixConnectError) -> None:
        if item is None or not self.is_open(item):
            return
        locked = self.locked[item.key]
        before = locked.item
        if isinstance(outcome, Charge):
            after = structs.replace(before, status="CREATED", charge_id=outcome.id, wanted=None, refusal=None)
        else:
            after = structs.replace(before, status="REFUSED", refusal=list_reasons(outcome))
        # The item is pending until the last of its requests is done.
        if locked.waiting_count > 1:
            after = structs.replace(after, status="PROCESSING", refusal=None)
        self.done.append((after, item.number))


async def lock_batch_items(
    connection: Connection,
    batch: Sequence[ChargeWrite],
    charges: Mapping[tuple[str, int], Charge],
    held_before: set[tuple[str, int]],
) -> BatchItems:
    """Lock the items of a batch of writes, after their charges.

    Args:
        charges: The existing ones, locked.
        held_before: The txids, with their holders, that a lot held at the look-up.
    """
    keys = {write.item.key for write in batch if write.item is not None}
    # A worker may have executed the request of an existing charge while we waited for its lock, so it is read again. Of
    # immediate charges only new ones can have a txid of a lot, and no lock is waited for there.
    asked = {
        (write.txid, write.holder_id)
        for write in batch
        if write.item is None and write.kind == WITH_DUE_DATE and (write.txid, write.holder_id) in charges
    }
    held = held_before - charges.keys()
    return BatchItems(
        locked=await lot_store.lock_items(connection, sorted(keys, key=structs.astuple)) if keys else {},
        held=held | await lot_store.find_held(connection, sorted(asked)) if asked else held,
        done=[],
    )


async def finish_batch_items(connection: Connection, items: BatchItems) -> None:
    if items.done:
        await lot_store.finish(connection, items.done)


def _refuse(write: ChargeWrite, reason: str) -> Violated:
    return Violated(write.kind, [Violation(property="txid", reason=reason, value=write.txid)])


def list_reasons(refusal: errors.PixConnectError) -> Refusal:
    if isinstance(refusal, Violated) and refusal.rows:
        return tuple(refusal.rows)
    if isinstance(refusal, errors.NotFound):
        return (Violation(property="txid", reason="a cobrança não existe"),)
    return (Violation(property=WITH_DUE_DATE, reason=f"a cobrança não é aceita: {refusal.message}"),)
