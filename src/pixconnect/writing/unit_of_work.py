"""A batch while its requests are decided one after the other: locked balances, changes, and ids.

Each request sees what those before it did: balances are changed in memory, and everything is written once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeVarTuple

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import Event, EventName
from pixconnect.domain.money import ledger as ledger_rules
from pixconnect.domain.money.block import STEP_ACCOUNTS, Block, BlockStep, StepKind, announce_hold, take_step
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.infraction import Infraction, announce_infraction
from pixconnect.domain.money.ledger import Account, Balance, Cause, Held, LedgerEntry, Repayment, part_taken
from pixconnect.domain.money.limit import ApprovalReason
from pixconnect.domain.money.order import await_approval, open_order
from pixconnect.domain.money.refund import Refund, announce_refund
from pixconnect.domain.money.transfer import Transfer, announce_transfer, announce_update
from pixconnect.domain.webhooks import endpoint
from pixconnect.domain.webhooks.endpoint import KeyWebhookEvent
from pixconnect.foundation import logging
from pixconnect.store.frame import identifiers as identifier_store
from pixconnect.store.frame.clock import DatabaseClock
from pixconnect.store.money import charge as charge_store
from pixconnect.store.money import infraction as infraction_store
from pixconnect.store.money import ledger as ledger_store
from pixconnect.store.money.approval import PENDING_APPROVALS, PendingApproval
from pixconnect.store.money.ledger import LockedBalances
from pixconnect.store.money.order import ORDERS
from pixconnect.store.webhooks.delivery import EVENTS, KEY_WEBHOOK_EVENTS
from pixconnect.writing.batch import Batch, OfHolder, Request
from pixconnect.writing.changes import Changes, tell_events
from pixconnect.writing.held_blocks import HeldBlocks
from pixconnect.writing.service_time import take_time

About = TypeVarTuple("About")

_BLOCKS_WITHOUT_SPARE: Final = identifier_store.BLOCK_SIZE // 4


class UnitOfWork(Changes):
    """Time, ids and balances of one batch, and the rows that it will write."""

    def __init__(self, batch: Batch[Any], now: datetime, locked: LockedBalances) -> None:
        super().__init__()
        self.connection = batch.connection
        self.now = now
        self.balances = locked.balances
        self.blocks = HeldBlocks()
        self._batch = batch
        self._locked = locked
        self._orders_count = 0
        self._spare_ids: list[int] = []
        self.count_from(locked.first_id)

    async def read_blocks(self, *, only_uncovered: bool = False) -> None:
        """Read what is open of whoever has blocks. Call it before anything is changed, where blocks are told of or taken of."""
        blocked = [each for each in self._locked.held.balances if self.balances[each].blocks_count]
        if blocked:
            read = infraction_store.list_uncovered_blocks if only_uncovered else infraction_store.list_open_blocks
            blocks = await read(self.connection, blocked)
            self.blocks = HeldBlocks(blocks, blocked if only_uncovered else ())
            # One credit may cover them all, each by an entry.
            for _ in range(-((_BLOCKS_WITHOUT_SPARE - len(blocks)) // identifier_store.BLOCK_SIZE)):
                self._spare_ids.append(await identifier_store.take_block(self.connection))

    async def lock_charges(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Charge]:
        """Lock charges by id and holder. Call it before any id of the batch is used."""
        if not wanted:
            return {}
        # Balances do not guard charges: another process may have made one, with its event, after this batch took its
        # ids. With new ids this batch's events come after that one.
        charges, first_id = await charge_store.lock(self.connection, wanted)
        self.count_from(first_id)
        return charges

    async def lock_charges_by_txid(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Charge]:
        """Lock charges by txid and holder; as ``lock_charges``."""
        if not wanted:
            return {}
        charges, first_id = await charge_store.lock_by_txid(self.connection, wanted)
        self.count_from(first_id)
        return charges

    def post(
        self,
        holder_id: int,
        debit_account: Account,
        credit_account: Account,
        amount_cents: int,
        cause: Cause,
        *,
        entry_id: int | None = None,
        goes_on: bool = False,
    ) -> LedgerEntry:
        """Move money between two accounts of a holder; an entry without an id gets one of the batch's block.

        Whatever raises what is available repays the deficit with it, and then covers what is blocked at the institution and not
        here, in the same statement: the entry that is returned does not say so, the balance does. What ``goes_on`` at once by
        the next entry does neither.
        """
        self._locked.held.check(holder_id, debit_account, credit_account)
        balance, entry = ledger_rules.post(
            self.balances[holder_id],
            debit_account,
            credit_account,
            amount_cents,
            cause,
            entry_id=self._take_entry_id() if entry_id is None else entry_id,
            now=self.now,
        )
        self.balances[holder_id] = balance
        self.put(ledger_store.ENTRIES, entry)
        if credit_account == "available" and not goes_on:
            if balance.repayable_cents:
                balance = self._repay(balance, entry)
            if balance.blocks_count:
                self._cover(holder_id)
        return entry

    def _repay(self, balance: Balance, source: LedgerEntry) -> Balance:
        cause = Cause("repayment", "MADE")
        entry = self.post(balance.holder_id, "available", "deficit", balance.repayable_cents, cause)
        repayment = Repayment(
            id=entry.id,
            holder_id=entry.holder_id,
            source_entry_id=source.id,
            amount_cents=entry.amount_cents,
            created_at=entry.created_at,
        )
        self.put(ledger_store.REPAYMENTS, repayment)
        return self.balances[entry.holder_id]

    def hold(self, before: Block | None, block: Block) -> Block:
        """Take over a block as it was just told: cover what is available of it, or release what it holds no more."""
        holder_id = block.holder_id
        was_open, is_open = before is not None and before.state == "open", block.state == "open"
        if was_open != is_open:
            self._count_block(holder_id, 1 if is_open else -1)
        if before is None:
            self.put(infraction_store.BLOCKS, block)
        if block.excess_cents:
            self.step(block, "released", block.excess_cents)
        else:
            self._change_block(block)
        self._cover(holder_id)
        return self.blocks.find(holder_id, block.reference) or block

    def hold_suspect(self, transfer: Transfer, block: Block, charge: Charge | None) -> None:
        """Hold a suspect credit, which was never available, and tell it."""
        self._count_block(block.holder_id, 1)
        self.put(infraction_store.BLOCKS, block)
        self.step(block, "held", block.held_cents)
        self.announce(announce_hold, transfer, block, charge)

    def let_go(self, ended: Block) -> None:
        """Hold a suspect credit no more: its transfer credits it in the same statement, or it was returned."""
        self._count_block(ended.holder_id, -1)
        self.step(ended, "let_go", ended.covered_cents)

    def _count_block(self, holder_id: int, change: Literal[1, -1]) -> None:
        balance = self.balances[holder_id]
        self.balances[holder_id] = structs.replace(balance, blocks_count=balance.blocks_count + change)

    def _cover(self, holder_id: int) -> None:
        """Block what is available, as far as it is blocked at the institution and was not here yet; the oldest block first."""
        while (available_cents := self.balances[holder_id].available_cents) > 0:
            block = self.blocks.find_uncovered(holder_id)
            if block is None:
                return
            self.step(block, "covered", min(block.uncovered_cents, available_cents))

    def step(self, block: Block, kind: StepKind, amount_cents: int, *, refund: Refund | None = None) -> LedgerEntry:
        """Move money into a block or out of it; what the institution took goes next, with the refund that it made."""
        # First the block as it is then: what becomes available by it must not be taken for it again.
        self._change_block(take_step(block, kind, amount_cents, self.now))
        cause = Cause("block_step", kind)
        entry = self.post(block.holder_id, *STEP_ACCOUNTS[kind], amount_cents, cause, goes_on=kind == "taken")
        step = BlockStep(
            id=entry.id,
            holder_id=block.holder_id,
            block_id=block.id,
            kind=kind,
            amount_cents=amount_cents,
            created_at=entry.created_at,
            refund_id=refund and refund.id,
        )
        self.put(infraction_store.BLOCK_STEPS, step)
        return entry

    def take_there(self, refund: Refund, contest_name: str | None = None) -> None:
        """Post what the institution gave back: of what it had blocked of that Pix, then of what is available; or it is owed.

        Args:
            refund: What it gave back.
            contest_name: Because of which contest, where it says so.
        """
        block = self.blocks.find_to_take_of(refund, contest_name)
        if block is not None:
            if contest_name in {None, block.reference}:
                # It is not held there any more, so nothing else is to cover it here. Another contest's block is still held.
                block = structs.replace(block, held_cents=max(0, block.held_cents - refund.amount_cents))
            part_cents = min(refund.amount_cents, block.covered_cents)
            if part_cents:
                self.step(block, "taken", part_cents, refund=refund)
            else:
                self._change_block(block)
        for account, cents in part_taken(self.balances[refund.holder_id], refund.amount_cents):
            self.post(refund.holder_id, account, "settlement", cents, refund.cause)
        if self.balances[refund.holder_id].blocks_count:
            # What went of another contest's block is still held: a late report says nothing more that would cover it.
            self._cover(refund.holder_id)

    def _change_block(self, block: Block) -> None:
        self.blocks.put(block)
        self.move(infraction_store.BLOCKS, block, block)

    def announce(self, write: Callable[[*About, int], Event], *about: *About) -> Event:
        """Write the event that a function of the domain makes of something and of the event's id."""
        event = write(*about, self._take_event_id())
        self.put(EVENTS, event)
        return event

    def announce_transfer(self, transfer: Transfer) -> None:
        event = self.announce(announce_transfer, transfer)
        if endpoint.is_told_of(transfer):
            self._tell_key(event, transfer.id, transfer)

    def announce_refund(self, refund: Refund) -> None:
        event = self.announce(announce_refund, refund)
        if endpoint.is_told_of(refund):
            self._tell_key(event, refund.transfer_id, None)

    def announce_infraction(self, infraction: Infraction, name: EventName | None = None) -> None:
        """Announce the state that it has reached, with its blocked amount; or a reminder."""
        block = self.blocks.find(infraction.holder_id, infraction.name)
        self.announce(announce_infraction, infraction, 0 if block is None else block.covered_cents, name)

    def _tell_key(self, event: Event, transfer_id: int, told_of: Transfer | None) -> None:
        if event.holder_id in self._locked.key_webhook_holders:
            self.put(KEY_WEBHOOK_EVENTS, KeyWebhookEvent.of(event, transfer_id, told_of))

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
        self.put(ORDERS, open_order(ordered, self.now, handover_timeout, institution_id, br_code))
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
        self.put(ORDERS, order)
        self.put(PENDING_APPROVALS, awaited)
        self.announce(announce_update, transfer, self.now)

    async def write(self) -> None:
        has_deliveries = await self.write_all(self.connection)
        if has_deliveries:
            self._batch.on_commit(partial(self._batch.wake_workers, only_deliveries=not self._orders_count))
        elif self._orders_count:
            self._batch.on_commit(partial(self._batch.wake_workers, self._orders_count))
        if events := self.list_new(EVENTS):
            if logging.is_shown():
                self._batch.on_commit(partial(tell_events, events))
            self._batch.on_commit(self._batch.wake_sequencer)

    def count_from(self, first_id: int) -> None:
        # Events and entries have tables of their own, so both may count through the same block.
        self._next_event_id = first_id
        self._next_entry_id = first_id
        self._last_id = self._last_entry_id = first_id + identifier_store.BLOCK_SIZE - 1

    def take_id(self) -> int:
        """An id for what is no entry and has no sequence; no entry has it."""
        return self._take_entry_id()

    def _take_entry_id(self) -> int:
        if self._next_entry_id > self._last_entry_id and self._spare_ids:
            self._next_entry_id = self._spare_ids.pop()
            self._last_entry_id = self._next_entry_id + identifier_store.BLOCK_SIZE - 1
        errors.ensure(self._next_entry_id <= self._last_entry_id, "the batch has no entry ids left")
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
    return UnitOfWork(batch, now, LockedBalances(clock=read, first_id=first_id))


def _own_holder(request: OfHolder) -> tuple[int, ...]:
    return (request.holder_id,)


async def lock_balances(
    batch: Batch[Request],
    holders_of: Callable[[Request], Iterable[int]] = _own_holder,
    statements_of: Callable[[Request], Iterable[int]] | None = None,
) -> UnitOfWork:
    """Begin a batch that moves money: lock balances and statements, read the clock, take ids, admit latecomers of those.

    Args:
        holders_of: Whose balances a request needs: for each entry but of what was reserved and settles.
        statements_of: Whose statements it needs: for each entry that has a number. By default those of its balances.
    """
    statements_of = statements_of or holders_of
    wanted = Held(
        balances=frozenset(holder_id for request in batch for holder_id in holders_of(request)),
        statements=frozenset(holder_id for request in batch for holder_id in statements_of(request)),
    )
    asked_at = batch.clock.real_now()
    locked = await ledger_store.lock_balances(batch.connection, wanted)
    now = take_time(batch.clock, asked_at, locked.clock)
    _admit(batch, locked.clock, lambda request: wanted.covers(holders_of(request), statements_of(request)))
    work = UnitOfWork(batch, now, locked)
    await work.read_blocks(only_uncovered=True)
    return work


def _admit(batch: Batch[Request], read: DatabaseClock, fits: Callable[[Request], bool]) -> None:
    # After a move of the clock, a caller may know the new time: the next batch dates its request.
    if batch.clock.revision == read.revision:
        batch.admit(fits)
