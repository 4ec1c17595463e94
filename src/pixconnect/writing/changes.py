"""What one batch changes, written by one statement.

Facts, money, events, deliveries and totals go to PostgreSQL together: one round trip, and none is ever there without the
others. The statement is put together from the parts that have rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, LiteralString

import asyncpg

from pixconnect.domain.due.paid_amount import PaidAmount
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import Event
from pixconnect.domain.money.adjustment import Adjustment
from pixconnect.domain.money.block import Block, BlockStep
from pixconnect.domain.money.charge import Charge, read_contents
from pixconnect.domain.money.charge_contents import digest_contents
from pixconnect.domain.money.infraction import Infraction, InfractionReturn
from pixconnect.domain.money.ledger import LedgerEntry, Repayment
from pixconnect.domain.money.movement import Movement
from pixconnect.domain.money.order import OpenOrder
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer, is_spent
from pixconnect.domain.standard.location import Location
from pixconnect.domain.webhooks.key_webhook import KeyWebhookEvent
from pixconnect.foundation.pool import Connection
from pixconnect.store.frame import tally as tally_store
from pixconnect.store.frame.table import Part, numbered
from pixconnect.store.identity import origin as origin_store
from pixconnect.store.identity.origin import OriginNotes
from pixconnect.store.institutions import rail_step as step_store
from pixconnect.store.money import adjustment as adjustment_store
from pixconnect.store.money import approval as approval_store
from pixconnect.store.money import block as block_store
from pixconnect.store.money import charge as charge_store
from pixconnect.store.money import infraction as infraction_store
from pixconnect.store.money import ledger as ledger_store
from pixconnect.store.money import movement as movement_store
from pixconnect.store.money import order as order_store
from pixconnect.store.money import paid_amount as paid_amount_store
from pixconnect.store.money import refund as refund_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.store.money.approval import PendingApproval
from pixconnect.store.standard import charge_revision as revision_store
from pixconnect.store.standard import location as location_store
from pixconnect.store.standard.charge_revision import ChargeRevision
from pixconnect.store.webhooks import delivery as delivery_store
from pixconnect.store.webhooks import event as event_store


class Changes:
    """Collects what a batch has decided, request by request.

    Adding something new or moved also notes how the totals of lists change.
    """

    def __init__(self) -> None:
        # By id and holder: an id is unique for its holder only.
        self._charges: dict[tuple[int, int], Charge] = {}
        self._moved_charges: dict[tuple[int, int], Charge] = {}
        self._held_charges: set[tuple[int, int]] = set()
        self._revised_charges: set[tuple[int, int]] = set()
        self._revisions: list[ChargeRevision] = []
        self._paid_amounts: list[PaidAmount] = []
        self._locations: dict[int, Location] = {}
        self._moved_locations: dict[tuple[int, int], Location] = {}
        self._transfers: dict[tuple[int, int], Transfer] = {}
        self._rare_transfers: dict[tuple[int, int], Transfer] = {}
        self._moved_transfers: dict[tuple[int, int], Transfer] = {}
        self._refunds: dict[tuple[int, int], Refund] = {}
        self._moved_refunds: dict[tuple[int, int], Refund] = {}
        self._orders: list[OpenOrder] = []
        self._ended_orders: list[OpenOrder] = []
        self._awaited: list[tuple[OpenOrder, PendingApproval]] = []
        self._entries: list[LedgerEntry] = []
        self._movements: list[Movement] = []
        self._adjustments: list[Adjustment] = []
        self._repayments: list[Repayment] = []
        self._blocks: dict[tuple[int, int], Block] = {}
        self._moved_blocks: dict[tuple[int, int], Block] = {}
        self._block_steps: list[BlockStep] = []
        self._infractions: dict[tuple[int, int], Infraction] = {}
        self._moved_infractions: dict[tuple[int, int], Infraction] = {}
        self._infraction_returns: list[InfractionReturn] = []
        self.events: list[Event] = []
        self._told: list[KeyWebhookEvent] = []
        self._tallies: list[tally_store.Change] = []
        self.origins = OriginNotes()

    def add_charge(self, charge: Charge) -> None:
        self._charges[charge.id, charge.holder_id] = charge
        self._tally_charge(charge, None)

    def move_charge(self, before: Charge, after: Charge) -> None:
        self._moved_charges[after.id, after.holder_id] = after
        if before.held_by != after.held_by:
            self._held_charges.add((after.id, after.holder_id))
        # A free amount becomes the one that was paid, and so does that of a day.
        if before.amount_cents != after.amount_cents:
            self._revised_charges.add((after.id, after.holder_id))
        self._tally_charge(after, before.status)

    def revise_charge(self, before: Charge, after: Charge) -> None:
        """A charge of which anything may have changed; what it said before is kept."""
        # One that this batch has made is not there to be changed.
        if (after.id, after.holder_id) in self._charges:
            errors.ensure(after.status == before.status, after.status)
            self._charges[after.id, after.holder_id] = after
        else:
            self.move_charge(before, after)
            self._revised_charges.add((after.id, after.holder_id))
        if after.revision != before.revision:
            self._revisions.append(
                ChargeRevision(
                    charge_id=before.id,
                    holder_id=before.holder_id,
                    revision=before.revision or 0,
                    contents=read_contents(before),
                    next_digest=digest_contents(read_contents(after)),
                )
            )

    def add_paid_amount(self, paid: PaidAmount) -> None:
        self._paid_amounts.append(paid)

    def add_location(self, location: Location) -> None:
        self._locations[location.id] = location
        self._tally(location.holder_id, "location", location, None)

    def move_location(self, before: Location, after: Location) -> None:
        self._tally(after.holder_id, "location", after, before.status)
        # One that this batch has made is not there to be changed.
        if after.id in self._locations:
            self._locations[after.id] = after
        else:
            self._moved_locations[after.id, after.holder_id] = after

    def add_transfer(self, transfer: Transfer) -> None:
        is_rare = transfer.returning_cents or transfer.acceptance_refused or transfer.institution_id
        new = self._rare_transfers if is_rare else self._transfers
        new[transfer.id, transfer.holder_id] = transfer
        self._tally(transfer.holder_id, "transfer", transfer, None)
        self._note_spent(transfer, None)

    def move_transfer(self, before: Transfer, after: Transfer) -> None:
        """A transfer that changed, and that the database has already."""
        self._moved_transfers[after.id, after.holder_id] = after
        self._tally(after.holder_id, "transfer", after, before.status)
        self._note_spent(after, before)

    def add_refund(self, refund: Refund) -> None:
        self._refunds[refund.id, refund.holder_id] = refund
        self._tally(refund.holder_id, "refund", refund, None)

    def move_refund(self, before: Refund, after: Refund) -> None:
        """A refund that changed, and that the database has already."""
        self._moved_refunds[after.id, after.holder_id] = after
        self._tally(after.holder_id, "refund", after, before.status)

    def add_order(self, order: OpenOrder) -> None:
        self._orders.append(order)

    def await_approval(self, order: OpenOrder, awaited: PendingApproval) -> None:
        """An order that leaves only once an operator has approved it."""
        self._awaited.append((order, awaited))

    def end_order(self, order: OpenOrder) -> None:
        self._ended_orders.append(order)

    def add_entry(self, entry: LedgerEntry) -> None:
        self._entries.append(entry)

    def add_repayment(self, repayment: Repayment) -> None:
        self._repayments.append(repayment)

    def add_movement(self, movement: Movement) -> None:
        self._movements.append(movement)

    def add_adjustment(self, adjustment: Adjustment) -> None:
        self._adjustments.append(adjustment)

    def add_block(self, block: Block) -> None:
        self._blocks[block.id, block.holder_id] = block

    def move_block(self, block: Block) -> None:
        """One that changed, whether or not this batch has made it."""
        key = block.id, block.holder_id
        (self._blocks if key in self._blocks else self._moved_blocks)[key] = block

    def add_block_step(self, step: BlockStep) -> None:
        self._block_steps.append(step)

    def add_infraction(self, infraction: Infraction) -> None:
        self._infractions[infraction.id, infraction.holder_id] = infraction

    def move_infraction(self, infraction: Infraction) -> None:
        """One that changed, whether or not this batch has made it."""
        key = infraction.id, infraction.holder_id
        (self._infractions if key in self._infractions else self._moved_infractions)[key] = infraction

    def add_infraction_return(self, returned: InfractionReturn) -> None:
        self._infraction_returns.append(returned)

    def add_event(self, event: Event) -> None:
        self.events.append(event)

    def tell_key(self, told: KeyWebhookEvent) -> None:
        self._told.append(told)

    def _tally_charge(self, charge: Charge, before: str | None) -> None:
        self._tally(charge.holder_id, "charge", charge, before)
        if charge.due_on is not None:
            self._tally(charge.holder_id, "charge_due", charge, before)

    def _tally(
        self, holder_id: int, kind: tally_store.Kind, thing: Charge | Transfer | Refund | Location, before: str | None
    ) -> None:
        if thing.status != before:
            self._tallies += tally_store.moved(holder_id, kind, thing.created_at, before, thing.status)

    def _note_spent(self, after: Transfer, before: Transfer | None) -> None:
        was_spent = before is not None and is_spent(before)
        if is_spent(after) != was_spent:
            cents = -after.amount_cents if was_spent else after.amount_cents
            self._tallies.append(tally_store.spent(after.holder_id, after.created_at, cents))

    async def write(self, connection: Connection) -> bool:
        """Write all of it in one statement.

        Returns:
            Whether deliveries were written, so that workers have something to send.

        Raises:
            asyncpg.UniqueViolationError: Another process used the same external id or end-to-end id meanwhile.
        """
        revised = {key: self._moved_charges.pop(key) for key in self._revised_charges if key in self._moved_charges}
        held = {key: self._moved_charges.pop(key) for key in self._held_charges if key in self._moved_charges}
        new_charges = sorted(self._charges.values(), key=lambda charge: (charge.external_id, charge.holder_id))
        new_orders = sorted(self._orders, key=lambda order: order.name)
        new_refunds = sorted(self._refunds.values(), key=lambda refund: refund.return_id)
        here = [charge for charge in new_charges if charge.institution_id is None]
        # New rows are sorted by the whole key on which two processes can meet, changed ones by id: that avoids deadlocks.
        parts: list[tuple[Part[Any], list[Any]]] = [
            (charge_store.INSERT, [charge for charge in here if charge.contents is None]),
            (charge_store.INSERT_STANDARD, [charge for charge in here if charge.contents is not None]),
            (charge_store.INSERT_THERE, [charge for charge in new_charges if charge.institution_id is not None]),
            (charge_store.UPDATE, _by_id(self._moved_charges)),
            (charge_store.UPDATE_HELD, _by_id(held)),
            (charge_store.UPDATE_REVISED, _by_id(revised)),
            (revision_store.INSERT, self._revisions),
            (location_store.INSERT, sorted(self._locations.values(), key=lambda location: location.token)),
            (location_store.UPDATE, _by_id(self._moved_locations)),
            (transfer_store.INSERT, _by_end_to_end_id(self._transfers)),
            (transfer_store.INSERT_RARE, _by_end_to_end_id(self._rare_transfers)),
            (transfer_store.UPDATE, _by_id(self._moved_transfers)),
            (paid_amount_store.INSERT, self._paid_amounts),
            (refund_store.INSERT, [refund for refund in new_refunds if refund.made_by == "service"]),
            (refund_store.INSERT_THERE, [refund for refund in new_refunds if refund.made_by == "institution"]),
            (refund_store.UPDATE, _by_id(self._moved_refunds)),
            (order_store.INSERT, [order for order in new_orders if order.institution_id is None]),
            (order_store.INSERT_THERE, [order for order in new_orders if order.institution_id is not None]),
            *self._list_awaited(),
            (order_store.DELETE, self._ended_orders),
            (step_store.END, [order for order in self._ended_orders if order.institution_id is not None]),
            (ledger_store.APPEND, self._entries),
            (ledger_store.APPEND_REPAYMENTS, self._repayments),
            *self._list_blocks(),
            (movement_store.INSERT, sorted(self._movements, key=lambda one: (one.holder_id, one.item_id))),
            (adjustment_store.INSERT, self._adjustments),
            (event_store.APPEND, self.events),
            (delivery_store.APPEND, self.events),
            (delivery_store.APPEND_TOLD, self._told),
            (tally_store.APPEND, self._tallies),
            (origin_store.APPEND, self.origins.list_all()),
        ]
        present = [(part, rows) for part, rows in parts if rows]
        if not present:
            return False  # every request of the batch was refused or a replay
        fitting = [part.fit(rows) for part, rows in present]
        written = tuple((part, sql, len(sent)) for (part, _), (sql, sent) in zip(present, fitting, strict=True))
        row = await connection.fetchrow(_statement(written), *(one for _, arguments in fitting for one in arguments))
        if row is None:
            raise errors.InvariantBroken("a statement that selects has a row")
        _check_each_row(row, present)
        return any(row[part.name] for part, _ in present if part.returns == "any row")

    def _list_blocks(self) -> list[tuple[Part[Any], list[Any]]]:
        return [
            (block_store.INSERT, sorted(self._blocks.values(), key=lambda block: block.reference)),
            (block_store.UPDATE, _by_id(self._moved_blocks)),
            (block_store.APPEND_STEPS, self._block_steps),
            (infraction_store.INSERT, sorted(self._infractions.values(), key=lambda told: told.name)),
            (infraction_store.UPDATE, _by_id(self._moved_infractions)),
            (infraction_store.INSERT_RETURNS, self._infraction_returns),
        ]

    def _list_awaited(self) -> list[tuple[Part[Any], list[Any]]]:
        orders, approvals = [order for order, _ in self._awaited], [approval for _, approval in self._awaited]
        return [(order_store.INSERT_AWAITED, orders), (approval_store.INSERT, approvals)]


def _check_each_row(row: asyncpg.Record, present: Sequence[tuple[Part[Any], list[Any]]]) -> None:
    for part, rows in present:
        if part.returns == "each row":
            # These rows are locked, so a missing one is a defect of ours: nothing of the batch may be committed.
            errors.ensure(row[part.name] == len(rows), part.name)


def _by_end_to_end_id(new: dict[tuple[int, int], Transfer]) -> list[Transfer]:
    return sorted(new.values(), key=lambda transfer: transfer.end_to_end_id)


def _by_id(changed: dict[tuple[int, int], Any]) -> list[Any]:
    return [changed[name] for name in sorted(changed)]


# Cached: the same text is also the same prepared statement of a connection.
@cache
def _statement(parts: tuple[tuple[Part[Any], LiteralString, int], ...]) -> LiteralString:
    expressions: list[LiteralString] = []
    first = 1
    for part, sql, arguments_count in parts:
        expressions.append(f"{part.name} as ({numbered(sql, arguments_count, first)})")
        first += arguments_count
    present = [part for part, _, _ in parts]
    for part in present:
        errors.ensure(part.reads is None or part.reads in present, f"{part.name} reads what is not written")
    answers: list[LiteralString] = [answer for part in present if (answer := part.answer) is not None]
    return "with " + ", ".join(expressions) + " select " + ", ".join(answers)
