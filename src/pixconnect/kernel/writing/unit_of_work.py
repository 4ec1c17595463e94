"""A batch while its requests are decided one after the other: locked balances, changes, and ids.

Each request sees the effects of earlier ones: balances are changed in memory, and everything is written once at the end.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import cache, partial
from logging import INFO, WARNING
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple
from weakref import proxy

from pixconnect.kernel.feature import Ranked, gather, gather_classes
from pixconnect.kernel.rules import ledger as ledger_rules
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import Event, describe_event
from pixconnect.kernel.rules.ledger import Account, Cause, Held, LedgerEntry, Repayment
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.refund import Refund, announce_refund
from pixconnect.kernel.rules.transfer import Transfer, announce_transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import clock as identifier_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import DatabaseClock, take_time
from pixconnect.kernel.tables.event import EVENTS
from pixconnect.kernel.tables.fact import Changes
from pixconnect.kernel.tables.ledger import LockedBalances
from pixconnect.kernel.tables.order import ORDERS
from pixconnect.kernel.writing.batch import Batch, Request
from pixconnect.platform import logging
from pixconnect.platform.base import errors

About = TypeVarTuple("About")
AnyClaim = TypeVar("AnyClaim", bound="Claim")


class Claim(Ranked):
    """A claim on money that becomes available to holders, such as a debt; each batch has its own. Deficits have the rank 10."""

    def __init__(self, work: "UnitOfWork") -> None:
        # Weak, because the work has us: in a cycle the whole batch would wait for the garbage collector.
        self.work: UnitOfWork = proxy(work)

    async def begin(self) -> None:
        """Read the claims of the holders whose balances are locked; nothing is changed yet."""

    def take(self, source: LedgerEntry) -> None:
        """Collect due claims from a holder's available balance, which an entry has just raised."""
        raise NotImplementedError


class Deficit(Claim):
    """Repays a holder's debt first: nothing is available while anything is owed."""

    rank = 10

    def take(self, source: LedgerEntry) -> None:
        amount_cents = self.work.balances[source.holder_id].repayable_cents
        if not amount_cents:
            return
        entry = self.work.post(source.holder_id, "available", "deficit", amount_cents, Cause("repayment", "MADE"))
        repayment = Repayment(
            id=entry.id,
            holder_id=entry.holder_id,
            source_entry_id=source.id,
            amount_cents=entry.amount_cents,
            created_at=entry.created_at,
        )
        self.work.put(ledger_store.REPAYMENTS, repayment)


CLAIMS: Final[tuple[type[Claim], ...]] = (Deficit,)


@cache
def list_claims() -> tuple[type[Claim], ...]:
    """The kernel's claims and those of features, in their order."""
    return gather_classes("claims", Claim, CLAIMS)


class Follower(NamedTuple):
    """What a feature writes with the event of a transfer or refund."""

    follow: "Callable[[UnitOfWork, Event, Transfer | Refund], None]"


@cache
def list_followers() -> tuple[Follower, ...]:
    return gather("followers", Follower)


class UnitOfWork(Changes):
    """Time, ids and balances of one batch, and the rows that it will write."""

    def __init__(self, batch: Batch[Any], now: datetime, locked: LockedBalances, claims: Sequence[type[Claim]] = ()) -> None:
        super().__init__()
        self.connection = batch.connection
        self.now = now
        self.balances = locked.balances
        self.held = locked.held
        self.key_webhook_holders = locked.key_webhook_holders
        self.charges: dict[tuple[int | str, int], Charge] = {}
        """Locked, by id or txid and by holder, as the batch changes them."""
        self.transfers: dict[tuple[int, int], Transfer] = {}  # locked, by id and holder, as the batch changes them
        self._claims = [claim(self) for claim in claims]
        self._batch = batch
        self._orders_count = 0
        self._spare_ids: list[int] = []
        self.count_from(locked.first_id)

    async def lock_charges(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Charge]:
        """Lock charges by id and holder. Call it before any id of the batch is used."""
        if not wanted:
            return {}
        # Balances do not guard charges: another process may have changed one, with its event, after this batch took its ids.
        # With new ids this batch's events come after that one.
        charges, first_id = await charge_store.lock(self.connection, wanted)
        self.count_from(first_id)
        self.charges.update(charges.items())
        return charges

    async def lock_charges_by_txid(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Charge]:
        """Lock charges by txid and holder; as ``lock_charges``."""
        if not wanted:
            return {}
        charges, first_id = await charge_store.lock_by_txid(self.connection, wanted)
        self.count_from(first_id)
        self.charges.update(charges.items())
        return charges

    async def lock_charges_of(self, received: Sequence[str]) -> None:
        """Lock the charges that received transfers of these ids have paid, before those transfers, as credits do."""
        if received:
            await self.lock_charges(await transfer_store.find_charge_ids(self.connection, received))

    async def lock_transfers(self, wanted: Collection[tuple[int, int]]) -> None:
        if wanted:
            self.transfers = await transfer_store.lock_by_id(self.connection, sorted(wanted))

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

        Claims take their part of newly available money, each in its turn and by entries of the same statement: the balance
        shows them, the returned entry does not. They take nothing of an amount that ``goes_on`` by the next entry.
        """
        self.held.check(holder_id, debit_account, credit_account)
        balance, entry = ledger_rules.post(
            self.balances[holder_id],
            debit_account,
            credit_account,
            amount_cents,
            cause,
            entry_id=self.take_id() if entry_id is None else entry_id,
            now=self.now,
        )
        self.balances[holder_id] = balance
        self.put(ledger_store.ENTRIES, entry)
        if credit_account == "available" and not goes_on:
            for claim in self._claims:
                claim.take(entry)
        return entry

    async def begin_claims(self) -> None:
        for claim in self._claims:
            await claim.begin()

    def claim(self, kind: type[AnyClaim]) -> AnyClaim:
        return next(claim for claim in self._claims if isinstance(claim, kind))

    def announce(self, write: Callable[[*About, int], Event], *about: *About) -> Event:
        """Write the event that a function makes from a resource and the event's id."""
        errors.ensure(self._next_event_id <= self._last_id, "the batch has no event ids left")
        event = write(*about, self._next_event_id)
        self._next_event_id += 1
        self.put(EVENTS, event)
        return event

    def announce_transfer(self, transfer: Transfer) -> None:
        self._follow_event(self.announce(announce_transfer, transfer), transfer)

    def announce_refund(self, refund: Refund) -> None:
        self._follow_event(self.announce(announce_refund, refund), refund)

    def _follow_event(self, event: Event, happened: Transfer | Refund) -> None:
        for follower in list_followers():
            follower.follow(self, event, happened)

    def order(self, order: OpenOrder) -> None:
        """Leave a transfer or refund to the workers, which hand it to the rail after the commit."""
        self.put(ORDERS, order)
        # Workers are woken for orders that may leave now.
        self._orders_count += order.may_leave

    async def write(self) -> None:
        has_deliveries, events = await self.write_all(self.connection), self.list_new(EVENTS)
        if has_deliveries:
            self._batch.on_commit(partial(self._batch.wake_workers, only_deliveries=True))
        if self._orders_count:
            self._batch.on_commit(partial(self._batch.wake_workers, self._orders_count))
        # The sequencer is a part of a worker, and is woken with the others.
        elif events and not has_deliveries:
            self._batch.on_commit(self._batch.wake_sequencer)
        if events and logging.is_shown():
            self._batch.on_commit(partial(_log_events, events))

    async def take_ids_for(self, claimed_count: int) -> None:
        """Take more ids if one entry may be followed by this many entries of claims."""
        size = identifier_store.BLOCK_SIZE
        # A quarter of the batch's own block is left for claims.
        for _ in range(-((size // 4 - claimed_count) // size)):
            self._spare_ids.append(await identifier_store.take_block(self.connection))

    def count_from(self, first_id: int) -> None:
        # Events and entries have separate tables, so both may use the same block.
        self._next_event_id = first_id
        self._next_entry_id = first_id
        self._last_id = self._last_entry_id = first_id + identifier_store.BLOCK_SIZE - 1

    def take_id(self) -> int:
        """Return an id for an entry, or for another row that has no sequence: both never have the same."""
        if self._next_entry_id > self._last_entry_id and self._spare_ids:
            self._next_entry_id = self._spare_ids.pop()
            self._last_entry_id = self._next_entry_id + identifier_store.BLOCK_SIZE - 1
        errors.ensure(self._next_entry_id <= self._last_entry_id, "the batch has no entry ids left")
        self._next_entry_id += 1
        return self._next_entry_id - 1


async def begin_work(batch: Batch[Any]) -> UnitOfWork:
    """Begin a batch that moves no money: read the clock, take ids, and admit all latecomers.

    Call it after locking everything that will change: other requests may need rows that are not locked.
    """
    asked_at = batch.clock.real_now()
    read, first_id = await identifier_store.open_group(batch.connection)
    now = take_time(batch.clock, asked_at, read)
    _admit(batch, read, lambda _: True)
    return UnitOfWork(batch, now, LockedBalances(clock=read, first_id=first_id))


async def begin_money_work(
    batch: Batch[Request],
    holders_of: Callable[[Request], Iterable[int]] = lambda request: (request.holder_id,),
    statements_of: Callable[[Request], Iterable[int]] | None = None,
) -> UnitOfWork:
    """Begin a batch that moves money: lock balances and statements, read the clock, take ids, admit later requests for those.

    Args:
        holders_of: The holders whose balances a request needs: for each entry except settlements of reserved money.
        statements_of: The holders whose statements it needs: for each entry that has a number. By default those of its
        balances.
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
    work = UnitOfWork(batch, now, locked, list_claims())
    await work.begin_claims()
    return work


def _admit(batch: Batch[Request], read: DatabaseClock, fits: Callable[[Request], bool]) -> None:
    # After a move of the clock, a caller may know the new time: the next batch dates its request.
    if batch.clock.revision == read.revision:
        batch.admit(fits)


def _log_events(events: Iterable[Event]) -> None:
    for event in events:
        level = WARNING if event.name.endswith(".error") else INFO
        logging.print_line(f"event  {describe_event(event.body)}", level=level)
