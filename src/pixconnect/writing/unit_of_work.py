"""A batch while its requests are decided one after the other: what they lock, what they change, and the ids for it.

What one request of the batch does is seen by the next: balances, and whatever else a use case carries along, are kept here and
changed in memory, and everything is written once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pixconnect.domain import errors
from pixconnect.domain import ledger as ledger_rules
from pixconnect.domain.charge import Charge, announce_charge
from pixconnect.domain.event import EventName
from pixconnect.domain.ledger import Account, Balance, LedgerEntry
from pixconnect.domain.order import open_order
from pixconnect.domain.refund import Refund, announce_refund
from pixconnect.domain.transfer import Transfer, announce_transfer
from pixconnect.store import charge as charge_store
from pixconnect.store import identifiers as identifier_store
from pixconnect.store import ledger as ledger_store
from pixconnect.writing.batch import Batch
from pixconnect.writing.changes import Changes
from pixconnect.writing.operation import OfHolder, Request
from pixconnect.writing.service_time import take_time


class UnitOfWork:
    """Time, ids and balances of one batch, and what it will write.

    Args:
        now: Service time, the same for the whole batch.
        first_id: Of the batch's block.
        balances: By holder, locked.
    """

    def __init__(
        self,
        batch: Batch[Any],
        now: datetime,
        first_id: int,
        balances: Mapping[int, Balance],
    ) -> None:
        self.connection = batch.connection
        self.now = now
        self.balances = dict(balances)
        self.changes = Changes()
        self._batch = batch
        self._has_orders = False
        self._take_block(first_id)

    async def lock_charges(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Charge]:
        """Lock charges by id and holder. The batch's ids are taken anew with them.

        A charge is not guarded by the balance: it may have been made, with its event, after this batch began.
        """
        if not wanted:
            return {}
        charges, first_id = await charge_store.lock(self.connection, wanted)
        self._take_block(first_id)
        return charges

    async def lock_charges_by_txid(self, txids: Sequence[str]) -> dict[str, Charge]:
        """As ``lock_charges``, by txid."""
        if not txids:
            return {}
        charges, first_id = await charge_store.lock_by_txid(self.connection, txids)
        self._take_block(first_id)
        return charges

    def post(
        self,
        holder_id: int,
        debit_account: Account,
        credit_account: Account,
        amount_cents: int,
        *,
        transfer_id: int | None = None,
        refund_id: int | None = None,
        entry_id: int | None = None,
    ) -> LedgerEntry:
        """Move money between two accounts of a holder.

        Returns:
            The entry; its instant is when the money moved. Its id is of the batch's block, unless one was made before.
        """
        balance, entry = ledger_rules.post(
            self.balances[holder_id],
            debit_account,
            credit_account,
            amount_cents,
            entry_id=self._take_entry_id() if entry_id is None else entry_id,
            now=self.now,
            transfer_id=transfer_id,
            refund_id=refund_id,
        )
        self.balances[holder_id] = balance
        self.changes.add_entry(entry)
        return entry

    def announce_charge(self, charge: Charge, name: EventName) -> None:
        """Tell what has just happened to a charge."""
        self.changes.add_event(announce_charge(charge, name, self._take_event_id()))

    def announce_transfer(self, transfer: Transfer) -> None:
        """Tell the state that a transfer has just reached."""
        self.changes.add_event(announce_transfer(transfer, self._take_event_id()))

    def announce_refund(self, refund: Refund) -> None:
        """Tell the state that a refund has just reached."""
        self.changes.add_event(announce_refund(refund, self._take_event_id()))

    def order(self, ordered: Transfer | Refund, handover_timeout: timedelta) -> None:
        """Leave a transfer or refund to the workers, who hear of it when it is durable."""
        self.changes.add_order(open_order(ordered, self.now, handover_timeout))
        self._has_orders = True

    async def write(self) -> None:
        """Write everything that was decided."""
        has_deliveries = await self.changes.write(self.connection)
        if has_deliveries or self._has_orders:
            self._batch.on_commit(self._batch.wake_workers)

    def _take_block(self, first_id: int) -> None:
        """Give out the ids of this block from now on; nothing has been given out yet."""
        self._next_event_id = first_id
        self._next_entry_id = first_id
        self._last_id = first_id + identifier_store.BLOCK_SIZE - 1

    def _take_entry_id(self) -> int:
        errors.ensure(self._next_entry_id <= self._last_id, "the batch has no entry ids left")
        self._next_entry_id += 1
        return self._next_entry_id - 1

    def _take_event_id(self) -> int:
        errors.ensure(self._next_event_id <= self._last_id, "the batch has no event ids left")
        self._next_event_id += 1
        return self._next_event_id - 1


async def begin_work(batch: Batch[Any]) -> UnitOfWork:
    """Begin what moves no money, once everything is locked that it changes: read the clock and take ids.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    asked_at = batch.clock.real_now()
    read, first_id = await identifier_store.open_group(batch.connection)
    return UnitOfWork(batch, take_time(batch.clock, asked_at, read), first_id, {})


def _own_holder(request: OfHolder) -> tuple[int, ...]:
    return (request.holder_id,)


async def lock_balances(
    batch: Batch[Request], holders_of: Callable[[Request], Iterable[int]] = _own_holder
) -> UnitOfWork:
    """Begin what moves money: lock balances in ascending order, read the clock, take ids, and admit latecomers.

    Args:
        batch: Grows by what else concerns only the balances that are now locked.
        holders_of: Whose balances a request may change.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    wanted = {holder_id for request in batch for holder_id in holders_of(request)}
    asked_at = batch.clock.real_now()
    balances, read, first_id = await ledger_store.lock_balances(batch.connection, sorted(wanted))
    now = take_time(batch.clock, asked_at, read)
    if batch.clock.revision == read.revision:
        # Otherwise it was moved meanwhile, and who comes now may know: that request is dated by the next batch.
        batch.admit(lambda request: wanted.issuperset(holders_of(request)))
    return UnitOfWork(batch, now, first_id, balances)
