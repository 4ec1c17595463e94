"""A group's transaction while its requests are decided one after the other.

What one request of the group does is seen by the next: balances, and whatever else a use case carries along, are kept here and
changed in memory, and everything is written once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from pixconnect.domain import errors
from pixconnect.domain import ledger as ledger_rules
from pixconnect.domain.charge import Charge, announce_charge
from pixconnect.domain.event import EventName
from pixconnect.domain.ledger import Account, Balance, LedgerEntry
from pixconnect.domain.order import open_order
from pixconnect.domain.refund import Refund, announce_refund
from pixconnect.domain.transfer import Transfer, announce_transfer
from pixconnect.foundation.pool import Connection
from pixconnect.store import charge as charge_store
from pixconnect.store import ledger as ledger_store
from pixconnect.store import write_group as write_group_store
from pixconnect.store.changes import Changes
from pixconnect.usecases.context import Context
from pixconnect.usecases.group_commit import Group, Request
from pixconnect.usecases.groups import GroupCommits
from pixconnect.usecases.service_time import take_time


class WriteGroup:
    """Time, ids and balances of one group, and what it will write.

    Args:
        groups: Will wake workers once this group is durable.
        connection: With the group's transaction open.
        now: Service time, the same for the whole group.
        first_id: Of the group's block.
        balances: By holder, locked.
    """

    def __init__(
        self,
        groups: GroupCommits,
        connection: Connection,
        now: datetime,
        first_id: int,
        balances: Mapping[int, Balance],
    ) -> None:
        self.connection = connection
        self.now = now
        self.balances = dict(balances)
        self.changes = Changes()
        self._groups = groups
        self._has_work = False
        self._take_block(first_id)

    async def lock_charges(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Charge]:
        """Lock charges by id and holder. The group's ids are taken anew with them.

        A charge is not guarded by the balance: it may have been made, with its event, after this group began.
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
            The entry; its instant is when the money moved. Its id is of the group's block, unless one was made before.
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

    def order(self, ordered: Transfer | Refund, patience: timedelta) -> None:
        """Leave a transfer or refund to the workers, who hear of it when it is durable.

        Args:
            ordered: To go over the rail.
            patience: How long it may wait to be handed over.
        """
        self.changes.add_order(open_order(ordered, self.now, patience))
        self._has_work = True

    async def write(self) -> None:
        """Write everything that was decided."""
        has_deliveries = await self.changes.write(self.connection)
        if has_deliveries or self._has_work:
            self._groups.wake_after_commit(self.connection)

    def _take_block(self, first_id: int) -> None:
        """Give out the ids of this block from now on; nothing has been given out yet."""
        self._next_event_id = first_id
        self._next_entry_id = first_id
        self._last_id = first_id + write_group_store.BLOCK_SIZE - 1

    def _take_entry_id(self) -> int:
        errors.ensure(self._next_entry_id <= self._last_id, "the group has no entry ids left")
        self._next_entry_id += 1
        return self._next_entry_id - 1

    def _take_event_id(self) -> int:
        errors.ensure(self._next_event_id <= self._last_id, "the group has no event ids left")
        self._next_event_id += 1
        return self._next_event_id - 1


async def open_write_group(context: Context, connection: Connection) -> WriteGroup:
    """Begin a group that moves no money: read the clock and take ids.

    Args:
        context: Of this process; its clock takes over what the database's says.
        connection: With the group's transaction open, and everything locked that the group changes.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    asked_at = context.clock.real_now()
    read, first_id = await write_group_store.open_group(connection)
    return WriteGroup(context.groups, connection, take_time(context.clock, asked_at, read), first_id, {})


async def lock_write_group(
    context: Context,
    connection: Connection,
    group: Group[Request],
    holders_of: Callable[[Request], Iterable[int]] = lambda request: (request.holder_id,),
) -> WriteGroup:
    """Begin a group that moves money: lock balances in ascending order, read the clock, take ids, and admit latecomers.

    Args:
        context: Of this process; its clock takes over what the database's says.
        connection: With the group's transaction open.
        group: Grows by what else concerns only the balances that are now locked.
        holders_of: Whose balances a request may change.

    Raises:
        ServiceUnavailable: The process's own clock is too far from the database's.
    """
    wanted = {holder_id for request in group for holder_id in holders_of(request)}
    asked_at = context.clock.real_now()
    balances, read, first_id = await ledger_store.lock_balances(connection, sorted(wanted))
    now = take_time(context.clock, asked_at, read)
    if context.clock.revision == read.revision:
        # Otherwise it was moved meanwhile, and who comes now may know: that request is dated by the next group.
        group.admit(lambda request: wanted.issuperset(holders_of(request)))
    return WriteGroup(context.groups, connection, now, first_id, balances)
