"""Completes a lot's item in the transaction that writes its charge, so each item is done once.

If the worker dies before, the request stays; a second worker finds no request and does nothing.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, LiteralString

from msgspec import Struct, structs

from pixconnect.features.lots import tables as lot_store
from pixconnect.features.lots.rules import LotItem, Refusal
from pixconnect.features.lots.tables import ItemKey, LockedItem
from pixconnect.features.pix_api.lots import BatchItems, Lots
from pixconnect.features.pix_api.service.charge_write import ChargeWrite
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.location import WITH_DUE_DATE
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.pool import Connection


class ItemWrite(Struct, frozen=True, kw_only=True):
    key: ItemKey
    number: int
    is_first: bool  # whether its charge did not exist when the request was read
    refusal: Refusal = ()  # the errors of its form, if any


class LotItems(BatchItems):
    locked: Mapping[ItemKey, LockedItem]
    held: set[tuple[str, int]]  # txids, with their holders, that only requests of their lot may make or change now
    done: list[tuple[LotItem, int]]

    def check(self, write: ChargeWrite, charge: Charge | None, *, makes: bool) -> None:
        if not isinstance(write.item, ItemWrite):
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
        return locked is not None and locked.next_number == item.number and (locked.item.charge_id is None) == item.is_first

    def note(self, write: ChargeWrite, outcome: Charge | errors.PixConnectError) -> None:
        item = write.item
        if not isinstance(item, ItemWrite) or not self.is_open(item):
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

    async def finish(self, connection: Connection) -> None:
        if self.done:
            await lot_store.finish(connection, self.done)


class _OfLots(Lots):
    held: ClassVar[LiteralString] = lot_store.FIND_HELD
    searched: ClassVar[LiteralString | None] = lot_store.SEARCHED

    async def lock_items(
        self,
        work: UnitOfWork,
        batch: Sequence[ChargeWrite],
        charges: Mapping[tuple[str, int], Charge],
        held_before: set[tuple[str, int]],
    ) -> BatchItems:
        keys = {write.item.key for write in batch if isinstance(write.item, ItemWrite)}
        # A worker may have executed the request of an existing charge while we waited for its lock, so it is read again. Of
        # immediate charges only new ones can have a txid of a lot, and no lock is waited for there.
        asked = {
            (write.txid, write.holder_id)
            for write in batch
            if write.item is None and write.kind == WITH_DUE_DATE and (write.txid, write.holder_id) in charges
        }
        held = held_before - charges.keys()
        return LotItems(
            locked=await lot_store.lock_items(work.connection, sorted(keys)) if keys else {},
            held=held | await lot_store.find_held(work.connection, sorted(asked)) if asked else held,
            done=[],
        )


LOTS: Final = (_OfLots(),)


def _refuse(write: ChargeWrite, reason: str) -> Violated:
    return Violated(write.kind, [Violation(property="txid", reason=reason, value=write.txid)])


def list_reasons(refusal: errors.PixConnectError) -> Refusal:
    if isinstance(refusal, Violated) and refusal.rows:
        return tuple(refusal.rows)
    if isinstance(refusal, errors.NotFound):
        return (Violation(property="txid", reason="a cobrança não existe"),)
    return (Violation(property=WITH_DUE_DATE, reason=f"a cobrança não é aceita: {refusal.message}"),)
