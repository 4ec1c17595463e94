"""A batch while its requests are decided one after the other: locked balances, changes, and ids.

Each request sees what those before it did: balances are changed in memory, and everything is written once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pixconnect.domain.due.paid_amount import keep_parts
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import Divergence, Event, EventName
from pixconnect.domain.money import ledger as ledger_rules
from pixconnect.domain.money.adjustment import Adjustment, announce_adjustment
from pixconnect.domain.money.charge import Charge, announce_charge, compose_amount
from pixconnect.domain.money.divergence import announce_divergence
from pixconnect.domain.money.ledger import Account, Balance, LedgerEntry, Repayment
from pixconnect.domain.money.limit import ApprovalReason
from pixconnect.domain.money.movement import Movement, announce_movement
from pixconnect.domain.money.order import await_approval, open_order
from pixconnect.domain.money.refund import Refund, announce_refund
from pixconnect.domain.money.transfer import Transfer, announce_transfer
from pixconnect.domain.webhooks import key_webhook
from pixconnect.domain.webhooks.key_webhook import KeyWebhookEvent
from pixconnect.foundation import terminal_log
from pixconnect.store.frame import identifiers as identifier_store
from pixconnect.store.frame.clock import DatabaseClock
from pixconnect.store.money import charge as charge_store
from pixconnect.store.money import ledger as ledger_store
from pixconnect.store.money.approval import PendingApproval
from pixconnect.writing.batch import Batch
from pixconnect.writing.changes import Changes
from pixconnect.writing.event_lines import tell_events
from pixconnect.writing.operation import OfHolder, Request
from pixconnect.writing.service_time import take_time


class UnitOfWork:
    """Time, ids and balances of one batch, and what it will write."""

    def __init__(
        self,
        batch: Batch[Any],
        now: datetime,
        first_id: int,
        balances: Mapping[int, Balance],
        key_webhook_holders: Container[int] = (),
    ) -> None:
        self.connection = batch.connection
        self.now = now
        self.balances = dict(balances)
        self.changes = Changes()
        self._batch = batch
        self._key_webhook_holders = key_webhook_holders
        self._orders_count = 0
        self._take_block(first_id)

    async def lock_charges(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Charge]:
        """Lock charges by id and holder. Call it before any id of the batch is used."""
        if not wanted:
            return {}
        # Balances do not guard charges: another process may have made one, with its event, after this batch took its
        # ids. With new ids this batch's events come after that one.
        charges, first_id = await charge_store.lock(self.connection, wanted)
        self._take_block(first_id)
        return charges

    async def lock_charges_by_txid(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Charge]:
        """Lock charges by txid and holder; as ``lock_charges``."""
        if not wanted:
            return {}
        charges, first_id = await charge_store.lock_by_txid(self.connection, wanted)
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
        """Move money between two accounts of a holder; an entry without an id gets one of the batch's block.

        Whatever raises what is available repays the deficit with it, in the same statement: the entry that is returned
        does not say so, the balance does.
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
        if balance.repayable_cents:
            self._repay(balance, entry)
        return entry

    def _repay(self, balance: Balance, source: LedgerEntry) -> None:
        entry = self.post(balance.holder_id, "available", "deficit", balance.repayable_cents)
        repayment = Repayment(
            id=entry.id,
            holder_id=entry.holder_id,
            source_entry_id=source.id,
            amount_cents=entry.amount_cents,
            created_at=entry.created_at,
        )
        self.changes.add_repayment(repayment)

    def announce_charge(self, charge: Charge, name: EventName) -> None:
        self.changes.add_event(announce_charge(charge, name, self._take_event_id()))

    def keep_parts(self, transfer: Transfer, charge: Charge, reported_at: datetime) -> None:
        """Note of what parts a payment consists that pays or holds a charge with a due date; of others nothing."""
        amount = compose_amount(charge, reported_at)
        if amount is not None:
            self.changes.add_paid_amount(keep_parts(amount, transfer.id, transfer.holder_id, charge.id))

    def announce_transfer(self, transfer: Transfer) -> None:
        event = announce_transfer(transfer, self._take_event_id())
        self.changes.add_event(event)
        if key_webhook.is_told_of(transfer):
            self._tell_key(event, transfer.id, transfer)

    def announce_later(self, transfer: Transfer) -> None:
        """What changes nothing of its state: more of who paid is known, or it waits for a person here or at its institution."""
        self.changes.add_event(announce_transfer(transfer, self._take_event_id(), self.now))

    def announce_divergence(
        self, transfer: Transfer, charge: Charge | None, divergences: tuple[Divergence, ...]
    ) -> None:
        self.changes.add_event(announce_divergence(transfer, charge, divergences, self._take_event_id()))

    def announce_refund(self, refund: Refund) -> None:
        event = announce_refund(refund, self._take_event_id())
        self.changes.add_event(event)
        if key_webhook.is_told_of(refund):
            self._tell_key(event, refund.transfer_id, None)

    def announce_movement(self, movement: Movement) -> None:
        self.changes.add_event(announce_movement(movement, self._take_event_id()))

    def announce_adjustment(self, adjustment: Adjustment) -> None:
        self.changes.add_event(announce_adjustment(adjustment, self._take_event_id()))

    def _tell_key(self, event: Event, transfer_id: int, told_of: Transfer | None) -> None:
        if event.holder_id in self._key_webhook_holders:
            self.changes.tell_key(KeyWebhookEvent.of(event, transfer_id, told_of))

    def order(
        self,
        ordered: Transfer | Refund,
        handover_timeout: timedelta,
        institution_id: int | None = None,
        br_code: str | None = None,
    ) -> None:
        """Leave a transfer or refund to the workers, who hand it to the rail after the commit.

        Args:
            institution_id: The account at an institution over which it goes.
            br_code: The code that it pays there.
        """
        self.changes.add_order(open_order(ordered, self.now, handover_timeout, institution_id, br_code))
        self._orders_count += 1

    def await_approval(
        self,
        transfer: Transfer,
        handover_timeout: timedelta,
        need: ApprovalReason,
        institution_id: int | None = None,
        br_code: str | None = None,
    ) -> None:
        """Leave a transfer to the workers once an operator has approved it, and tell that it waits; as ``order``."""
        opened = open_order(transfer, self.now, handover_timeout, institution_id, br_code)
        order = await_approval(opened, handover_timeout)
        awaited = PendingApproval(
            order_name=order.name,
            transfer_id=transfer.id,
            holder_id=transfer.holder_id,
            is_above=need.is_above,
            is_new_payee=need.is_new_payee,
            since=self.now,
        )
        # Not counted as an order: workers are woken for what may leave, and this may not yet.
        self.changes.await_approval(order, awaited)
        self.announce_later(transfer)

    async def write(self) -> None:
        has_deliveries = await self.changes.write(self.connection)
        if has_deliveries:
            only_deliveries = not self._orders_count
            self._batch.on_commit(partial(self._batch.wake_workers, only_deliveries=only_deliveries))
        elif self._orders_count:
            self._batch.on_commit(partial(self._batch.wake_workers, self._orders_count))
        if terminal_log.is_shown():
            self._batch.on_commit(partial(tell_events, self.changes.events))
        if self.changes.events:
            self._batch.on_commit(self._batch.wake_sequencer)

    def _take_block(self, first_id: int) -> None:
        # Events and entries have tables of their own, so both may count through the same block.
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
    """Begin a batch that moves no money: read the clock, take ids, and admit all latecomers.

    Call it after locking everything that will change: other requests may need rows that are not locked.
    """
    asked_at = batch.clock.real_now()
    read, first_id = await identifier_store.open_group(batch.connection)
    now = take_time(batch.clock, asked_at, read)
    _admit(batch, read, lambda _: True)
    return UnitOfWork(batch, now, first_id, {})


def _own_holder(request: OfHolder) -> tuple[int, ...]:
    return (request.holder_id,)


async def lock_balances(
    batch: Batch[Request], holders_of: Callable[[Request], Iterable[int]] = _own_holder
) -> UnitOfWork:
    """Begin a batch that moves money: lock balances in ascending order, read the clock, take ids, admit latecomers of those."""
    wanted = {holder_id for request in batch for holder_id in holders_of(request)}
    asked_at = batch.clock.real_now()
    # Ascending, so that two processes never wait for each other.
    locked = await ledger_store.lock_balances(batch.connection, sorted(wanted))
    now = take_time(batch.clock, asked_at, locked.clock)
    _admit(batch, locked.clock, lambda request: wanted.issuperset(holders_of(request)))
    return UnitOfWork(batch, now, locked.first_id, locked.balances, locked.key_webhook_holders)


def _admit(batch: Batch[Request], read: DatabaseClock, fits: Callable[[Request], bool]) -> None:
    # After a move of the clock, a caller may know the new time: the next batch dates its request.
    if batch.clock.revision == read.revision:
        batch.admit(fits)
