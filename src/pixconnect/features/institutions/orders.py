"""Orders at institutions: their first of two steps, their report in a list, and what the account adds to their end.

The record of their calls is stored under the fence of the account's slot.

An item of the statement may have been read before the order was known to be it, and posted as a movement: the statement that
settles the order posts that movement's opposite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec
from msgspec import structs

from pixconnect.features.institutions.accounts import ACCOUNT
from pixconnect.features.institutions.rules.institution import CertainRefusal, ListedRefund, OpenAccount, Sender
from pixconnect.features.institutions.rules.joining import LineKey
from pixconnect.features.institutions.rules.pending_call import FirstStep, NamedPix, is_another_owner
from pixconnect.features.institutions.rules.rail_memory import (
    MemoryUnavailable,
    Outcome,
    OutgoingPix,
    RailMemory,
    RailStep,
    SentPix,
    name_at_institution,
    name_payee,
)
from pixconnect.features.institutions.rules.unmatched import ReversedMovement
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import rail_step as step_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables.rail_step import ENDED_STEPS, OrderNaming
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.rules import Movement
from pixconnect.features.movements.service import take_back
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.settlement import EndedOrder, EndRule, Fence
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party, describe_party, parse_pix_key
from pixconnect.kernel.rules.order import Ending, OpenOrder, name_of
from pixconnect.kernel.rules.rail import NotTaken, Order, Rejected, Settled, SubmitAnswer
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, to_day
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection, Pool


def is_code_of(text: str, pix: OutgoingPix) -> bool:
    """Whether a static code has this key and amount; a dynamic one's contents are at its location."""
    try:
        code = parse_br_code(text)
        if code.key is None:
            return code.location is not None
        key = parse_pix_key(code.key).key
    except (errors.InvalidQrCode, errors.InvalidPixKey):
        # An unreadable code cannot be compared, so it is not paid.
        return False
    # A static code may leave its amount to the payer.
    return code.fixed_amount_cents in (None, pix.amount_cents) and key == pix.payee.key


def as_sent(refund: ListedRefund) -> SentPix:
    """Return a refund in the form of a sent Pix: its network name is the return's."""
    return SentPix(
        name=refund.id,
        end_to_end_id=refund.return_id,
        amount_cents=refund.amount_cents,
        status="settled" if refund.status == "returned" else refund.status,
        settled_at=refund.settled_at,
        reason=refund.reason,
    )


LOSS_REMEMBERED_FOR: Final = timedelta(days=35)
"""How long after a loss a replayed request may be one whose call was lost."""
_FAILED = (*DATABASE_FAILED, errors.PixConnectError)
_decode_party = msgspec.json.Decoder(Party).decode

NO_REASON: Final = "The institution gave no reason."
_REASON_MAX: Final = 1000


def doubt_step(calling: RailStep, reason: str) -> RailStep:
    """Record a refused call that the institution has not confirmed yet by its absence."""
    return structs.replace(calling, state="asked", may_be_done=True, refusal_reason=reason[:_REASON_MAX])


def end_step(step: RailStep, outcome: Outcome, code: str | None = None, reason: str | None = None) -> RailStep:
    text = None if reason is None else reason[:_REASON_MAX]
    return structs.replace(step, state="closed", outcome=outcome, refusal_code=code, refusal_reason=text)


def settle_by(step: RailStep, listed: SentPix, now: datetime) -> Settled:
    """Make the settlement with its payee: from the institution's report, or from its first step."""
    owner = describe_party(name=step.owner_name, tax_id=step.owner_tax_id)
    paid = listed.paid or (None if owner == UNKNOWN_PARTY else owner)
    # Without a reported instant, it is that of our reading.
    return Settled(settled_at=listed.settled_at or now, network_id=listed.end_to_end_id, payee=paid)


def reject_by(step: RailStep) -> Rejected:
    return Rejected(code=step.refusal_code or reject_code.NETWORK_FAILED, reason=step.refusal_reason or NO_REASON)


_OTHER_OWNER: Final = "The key does not belong to the named owner, by the institution's answer before payment."


async def take_first_step(sender: Sender, memory: RailMemory, step: RailStep, pix: OutgoingPix) -> RailStep | SubmitAnswer:
    """Run an order's first step, if it has none yet; return its new row, or its end.

    It moves nothing. So any failure or interruption counts as no call, and the step may be repeated.
    """
    if not isinstance(sender, FirstStep):
        return NotTaken()
    answer = await sender.mint(pix)
    if isinstance(answer, CertainRefusal):
        return await _refuse(memory, step, answer.reject_code or reject_code.WRONG_CONTENTS, answer.reason)
    # No answer, and nothing moved: the order stays unsent, and is tried again.
    if not isinstance(answer, NamedPix):
        return NotTaken()
    minted = structs.replace(
        step, state="minted", code_there=answer.code, owner_tax_id=answer.owner_tax_id, owner_name=answer.owner_name
    )
    # Recorded before it is used: of two processes, the second writes nothing, and uses the first one's name on its next try.
    return await _take(memory, step, minted) or NotTaken()


async def refuse_another(memory: RailMemory, step: RailStep, payee: Party) -> SubmitAnswer | None:
    """End an order whose key belongs to another owner than the caller named; ``None`` without such a report."""
    if step.state != "minted" or not is_another_owner(payee, step.owner_tax_id):
        return None
    return await _refuse(memory, step, reject_code.OTHER_OWNER, _OTHER_OWNER)


async def _refuse(memory: RailMemory, step: RailStep, code: str, reason: str) -> SubmitAnswer:
    """Final in any case, since no call was made that moves money; also if another worker has the row."""
    refused = end_step(step, "refused", code, reason)
    return NotTaken() if await _take(memory, step, refused) is None else reject_by(refused)


async def _take(memory: RailMemory, before: RailStep, after: RailStep) -> RailStep | None:
    try:
        return after if await memory.take(before, after) else None
    except MemoryUnavailable:
        return None


def write_pix(order: Order, step: RailStep) -> OutgoingPix:
    return OutgoingPix(
        name=step.name_there or "",
        amount_cents=step.amount_cents,
        payer_key=order.payer_key,
        payee=order.credit_party,
        is_by_key=order.initiation_type != "MANUAL",
        br_code=order.br_code,
        txid=order.txid,
        payer_message=order.payer_message,
        code=step.code_there,
    )


async def find_mistaken(
    connection: Connection | Pool, account_id: int, ordered: Transfer | Refund, ending: Ending
) -> ReversedMovement | None:
    """The movement that an item became which this order has proved to be."""
    if not isinstance(ending, Settled):
        return None
    names = [name for name in (name_of(ordered), ordered.network_id, ending.network_id) if name is not None]
    of = [ordered.original_end_to_end_id] if isinstance(ordered, Refund) else []
    # An order that is repeated after a loss settled before it was made again.
    day, made_at = to_day(ending.settled_at), min(ordered.created_at, ending.settled_at)
    found = await return_store.find_mistaken(connection, account_id, ordered.amount_cents, names, of, day, made_at)
    key: LineKey = ("refund" if isinstance(ordered, Refund) else "transfer", str(ordered.id))
    # The line that names an order may be read before its end: an equal one is another's.
    if found and key in (await item_store.find_joined(connection, account_id, [key]))[0]:
        return None
    # Of several that only resemble it, each may be another.
    return found[0] if len(found) == 1 else None


class Steps(EndRule):
    rank = 10

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        if order.institution_id is not None:
            self.work.put(ENDED_STEPS, order)


class StatementLines(EndRule):
    """Takes back movements that an order proves to be its own, and reopens days that have closed without its line.

    An order's report is as good as the statement.
    """

    rank = 20

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._moved: dict[tuple[int, str], Movement] = {}  # by holder and item
        self._proved: list[tuple[ReversedMovement, LineKey]] = []
        self._late: list[tuple[int, LineKey, date]] = []

    @staticmethod
    async def prepare(context: Context, ordered: Transfer | Refund, ending: Ending) -> ReversedMovement | None:
        account = context.port(ACCOUNT)
        # The installation's own rail tells no line twice.
        return None if account is None else await find_mistaken(context.pool, account.id, ordered, ending)

    async def begin(self, batch: Sequence[EndedOrder]) -> None:
        if mistaken := [found.key for ended in batch if (found := _mistaken_of(ended)) is not None]:
            self._moved = await movement_store.find_standing(self.work.connection, mistaken)

    def end(self, ended: EndedOrder, order: OpenOrder) -> None:
        mistaken = _mistaken_of(ended)
        if mistaken is None and order.institution_id is None:
            return
        line: LineKey = ("transfer" if order.is_transfer else "refund", str(order.resource_id))
        if mistaken is not None and (movement := self._moved.pop(mistaken.key, None)) is not None:
            # First what it took: it may be owed.
            take_back(self.work, movement, order.network_id or order.name)
            self._proved.append((mistaken, line))
        if order.institution_id is not None and isinstance(ended.ending, Settled):
            day = to_day(ended.ending.settled_at)
            if day < to_day(self.work.now):
                self._late.append((order.institution_id, line, day))

    async def finish(self) -> None:
        for mistaken, key in self._proved:
            await item_store.rejoin(self.work.connection, mistaken, key)
        for account_id, key, day in self._late:
            debited, _, _ = await item_store.find_joined(self.work.connection, account_id, [key])
            if not debited:
                await day_store.reopen(self.work.connection, account_id, [day], self.work.now)


def _mistaken_of(ended: EndedOrder) -> ReversedMovement | None:
    return next((each for each in ended.beside if isinstance(each, ReversedMovement)), None)


END_RULES: Final = (Steps, StatementLines)


class AccountFence:
    """Stands for the account's slot, in place of its orders' slots: one worker does all work of an account."""

    def __init__(self, fence: Fence, slot: int) -> None:
        self._fence = fence
        self._slot = slot

    def epochs_of(self, slots: Sequence[int]) -> Mapping[int, int]:
        return self._fence.epochs_of([self._slot])

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        await self._fence.fence(connection, [self._slot])


class StoredRailMemory:
    """The port ``features.institutions.rules.rail_memory.RailMemory``."""

    def __init__(self, pool: Pool, fence: Fence, clock: Clock, opened: OpenAccount) -> None:
        self._pool = pool
        self._fence = fence
        self._clock = clock
        self._institution_id = opened.account.id
        self._names_first = opened.institution.traits.names_first

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        try:
            known = await step_store.find(self._pool, self._institution_id, order_names)
            unknown = [name for name in order_names if name not in known]
            if not unknown:
                return known
            for order in await step_store.find_unended(self._pool, self._institution_id, unknown):
                await step_store.insert(self._pool, self._mint(order))
            # Read again: another worker may have made them first.
            return known | await step_store.find(self._pool, self._institution_id, unknown)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def take(self, before: RailStep, after: RailStep) -> bool:
        try:
            return await step_store.take(self._pool, self._fence.epochs_of([]), before, after)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def count_in_flight(self, since: datetime) -> int:
        try:
            return await step_store.count_in_flight(self._pool, self._institution_id, since)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def find_loss(self) -> datetime | None:
        try:
            return await step_store.find_loss(self._pool, self._clock.real_now() - LOSS_REMEMBERED_FOR)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    def _mint(self, order: OrderNaming) -> RailStep:
        now = self._clock.real_now()
        # We choose its name, so it has one at once; if a first step returns another, it waits for that.
        named = "new" if self._names_first and order.kind == "order" else "minted"
        account_id, holder_id, by_key = self._institution_id, order.named_holder_id, order.initiation_type != "MANUAL"
        payee = None if order.counterparty is None else _decode_party(order.counterparty)
        return RailStep(
            order_name=order.order_name,
            institution_id=account_id,
            kind=order.kind,
            holder_id=order.holder_id,
            original_end_to_end_id=order.original_end_to_end_id,
            amount_cents=order.amount_cents,
            payee=None if payee is None else name_payee(payee, is_by_key=by_key),
            name_there=name_at_institution(order.naming_key, account_id, order.kind, holder_id, order.external_id),
            # Possibly lost calls are queried, and never repeated.
            state="calling" if order.outlived_loss else named,
            called_at=now if order.outlived_loss else None,
            created_at=now,
            only_asked=order.outlived_loss,
        )
