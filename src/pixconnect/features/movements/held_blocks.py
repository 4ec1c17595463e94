"""The open blocks of the holders whose balances a batch has locked, as its requests change them; and suspect credits.

A holder may have thousands, and nearly all of them are covered. So a batch reads only uncovered ones, which is all that a
movement of money needs. A batch that changes blocks reads the others first (``HeldBlocks.read``).
"""

import sys
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct, structs

from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.blocks import (
    STEP_ACCOUNTS,
    Block,
    BlockStep,
    StepKind,
    announce_hold,
    end_block,
    open_line_block,
    open_suspect_credit,
    take_step,
)
from pixconnect.kernel.flows.before_order import NewOrder, OrderRule
from pixconnect.kernel.flows.credit import SuspectCredits
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.ledger import Cause, LedgerEntry, part_taken
from pixconnect.kernel.rules.order import OrderWait, WaitingOrder
from pixconnect.kernel.rules.rail import CreditAccepted, CreditCancelled, CreditHeld, CreditReport
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer, fail_transfer
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import Claim, UnitOfWork, begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

_CHANGED_AT_ONCE: Final = 50  # each takes up to two ids of the batch


class OpenBlocks:
    """By holder and reference. Holders without blocks are skipped: their balances show it.

    Args:
        blocks: The ones read, oldest of a holder first.
        has_more_of: Holders that have only their uncovered blocks in ``blocks``.
    """

    def __init__(self, blocks: Iterable[Block] = (), has_more_of: Container[int] = ()) -> None:
        self._has_more_of = has_more_of
        # A dict keeps the insertion order, oldest of a holder first, also for a changed block.
        self._blocks: defaultdict[int, dict[str, Block]] = defaultdict(dict)
        for block in blocks:
            self.put(block)

    def put(self, block: Block) -> Block:
        """Put a block; returns the replaced block, or this one if it is new."""
        blocks = self._blocks[block.holder_id]
        before = blocks.get(block.reference, block)
        blocks[block.reference] = block
        return before

    def find(self, holder_id: int, reference: str) -> Block | None:
        self._check_whole(holder_id)
        # Checked first, since a look-up would leave an empty entry for every holder of a batch.
        return self._blocks[holder_id].get(reference) if holder_id in self._blocks else None

    def find_of_transfer(self, holder_id: int, transfer_id: int) -> Block | None:
        of = (one for one in self.list_of(holder_id) if one.transfer_id == transfer_id and one.state == "open")
        return next(of, None)

    def find_to_take_of(self, refund: Refund, contest_name: str | None) -> Block | None:
        """Find the open block of its Pix that pays for an institution's refund."""
        of = self.list_of(refund.holder_id)
        of_pix = [one for one in of if one.transfer_id == refund.transfer_id and one.state == "open"]
        # One Pix may be contested several times: other blocks stay, unless they cover what its own does not.
        return max(
            of_pix, key=lambda one: (min(one.covered_cents, refund.amount_cents), one.reference == contest_name), default=None
        )

    def list_of(self, holder_id: int) -> list[Block]:
        """List a holder's blocks oldest first, in which order available money covers them."""
        self._check_whole(holder_id)
        return list(self._blocks[holder_id].values()) if holder_id in self._blocks else []

    def find_uncovered(self, holder_id: int) -> Block | None:
        """Find the oldest with an uncovered part; the transaction that locked the balance has all of these."""
        blocks = self._blocks[holder_id].values() if holder_id in self._blocks else ()
        return next((block for block in blocks if block.uncovered_cents > 0), None)

    def _check_whole(self, holder_id: int) -> None:
        # A missing block would count as none: money would be taken elsewhere, or a second block be made.
        errors.ensure(holder_id not in self._has_more_of, "not all blocks of the holder are read")


class HeldBlocks(Claim):
    """Covers blocks at the institution with newly available money."""

    rank = 20

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self.open = OpenBlocks()

    async def begin(self) -> None:
        await self.read(only_uncovered=True)

    async def read(self, *, only_uncovered: bool = False) -> None:
        """Read the open blocks of all holders that have any. Call it before anything is changed."""
        work = self.work
        if blocked := [each for each in work.held.balances if work.balances[each].blocks_count]:
            read = movement_store.list_uncovered_blocks if only_uncovered else movement_store.list_open_blocks
            blocks = await read(work.connection, blocked)
            self.open = OpenBlocks(blocks, blocked if only_uncovered else ())
            # One credit may cover them all, each by an entry.
            await work.take_ids_for(len(blocks))

    def take(self, source: LedgerEntry) -> None:
        if self.work.balances[source.holder_id].blocks_count:
            self._cover(source.holder_id)

    def hold(self, before: Block | None, block: Block) -> Block:
        """Record a newly reported block: cover it from the available balance, or release its excess."""
        holder_id = block.holder_id
        was_open, is_open = before is not None and before.state == "open", block.state == "open"
        if was_open != is_open:
            self._count(holder_id, 1 if is_open else -1)
        if before is None:
            self.work.put(movement_store.BLOCKS, block)
        # Not of a block that is held again without a report.
        is_reported = before is None or before.reported_at != block.reported_at
        if block.excess_cents:
            self._step(block, "released", block.excess_cents, reported_at=block.reported_at if is_reported else None)
        else:
            self._change(block)
        self._cover(holder_id, block.id if is_reported else None)
        return self.open.find(holder_id, block.reference) or block

    def hold_suspect(self, transfer: Transfer, block: Block, charge: Charge | None) -> None:
        """Hold a suspect credit, which was never available, and emit its event."""
        self._count(block.holder_id, 1)
        self.work.put(movement_store.BLOCKS, block)
        self._step(block, "held", block.held_cents, reported_at=block.reported_at)
        self.work.announce(announce_hold, transfer, block, charge)

    def release_suspect(self, ended: Block) -> None:
        """Release a suspect credit: its transfer credits it in the same statement, or it was returned."""
        self._count(ended.holder_id, -1)
        self._step(ended, "hold_ended", ended.covered_cents)

    def end_line(self, block: Block, *, goes_on: bool = False) -> None:
        """End the block of a line; its money is available, or ``goes_on`` by the line's movement."""
        ended = end_block(block, block.source, self.work.now, self.work.now)
        self._count(block.holder_id, -1)
        if ended.covered_cents:
            self._step(ended, "released", ended.covered_cents, goes_on=goes_on)
        else:
            self._change(ended)

    def take_returned(self, refund: Refund, contest_name: str | None = None) -> None:
        """Post the institution's return: from its block of that Pix, then from the available balance; the rest is owed.

        ``contest_name`` is the contest that caused it, if reported.
        """
        work = self.work
        if (block := self.open.find_to_take_of(refund, contest_name)) is not None:
            if contest_name in {None, block.reference}:
                # The institution no longer holds it, so nothing else covers it here. Another contest's block is still held.
                block = structs.replace(block, held_cents=max(0, block.held_cents - refund.amount_cents))
            part_cents = min(refund.amount_cents, block.covered_cents)
            if part_cents:
                self._step(block, "taken", part_cents, refund=refund, goes_on=True, reported_at=refund.network_settled_at)
            else:
                self._change(block)
        for account, cents in part_taken(work.balances[refund.holder_id], refund.amount_cents):
            work.post(refund.holder_id, account, "settlement", cents, refund.cause)
        if work.balances[refund.holder_id].blocks_count:
            # A part taken from another contest's block is still held: a late report would not cover it again.
            self._cover(refund.holder_id)

    def _cover(self, holder_id: int, reported_id: int | None = None) -> None:
        """Block the available balance, as far as blocks are uncovered, the oldest first; one of them was just reported."""
        while (available_cents := self.work.balances[holder_id].available_cents) > 0:
            block = self.open.find_uncovered(holder_id)
            if block is None:
                return
            reported_at = block.reported_at if block.id == reported_id else None
            self._step(block, "covered", min(block.uncovered_cents, available_cents), reported_at=reported_at)

    def _count(self, holder_id: int, change: Literal[1, -1]) -> None:
        balance = self.work.balances[holder_id]
        self.work.balances[holder_id] = structs.replace(balance, blocks_count=balance.blocks_count + change)

    def _step(
        self,
        block: Block,
        kind: StepKind,
        amount_cents: int,
        *,
        refund: Refund | None = None,
        reported_at: datetime | None = None,
        goes_on: bool = False,
    ) -> None:
        """Move money into a block or out of it; an amount that ``goes_on`` leaves by the next entry."""
        # First the block's new state: the released money must not cover it again.
        self._change(take_step(block, kind, amount_cents, self.work.now))
        cause = Cause("block_step", kind)
        entry = self.work.post(block.holder_id, *STEP_ACCOUNTS[kind], amount_cents, cause, goes_on=goes_on)
        step = BlockStep(
            id=entry.id,
            holder_id=block.holder_id,
            block_id=block.id,
            kind=kind,
            amount_cents=amount_cents,
            created_at=entry.created_at,
            refund_id=refund and refund.id,
            # The institution's clock may be ahead.
            reported_at=reported_at and min(reported_at, entry.created_at),
        )
        self.work.put(movement_store.BLOCK_STEPS, step)

    def _change(self, block: Block) -> None:
        self.work.move(movement_store.BLOCKS, self.open.put(block), block)


class AccountLines(Struct, frozen=True, kw_only=True):
    institution_id: int
    holder_id: int


async def reserve_lines(batch: Batch[AccountLines], changes_max: int = _CHANGED_AT_ONCE) -> list[bool]:
    """Make holders' blocks of lines match their waiting debits; return, for each holder, whether anything was changed."""
    work = await begin_money_work(batch)
    held = work.claim(HeldBlocks)
    await held.read()
    outcomes: list[bool] = []
    for asked in batch:
        # After the lock: posting a line as a movement of the holder ends its block under the same one.
        waiting = await line_store.list_waiting(batch.connection, asked.institution_id, asked.holder_id)
        blocks = [one for one in held.open.list_of(asked.holder_id) if one.state == "open" and one.line_id is not None]
        ended = [block for block in blocks if waiting.get(block.line_id or "") != block.held_cents][:changes_max]
        for block in ended:
            # The end of one before may have covered it.
            held.end_line(held.open.find(asked.holder_id, block.reference) or block)
        reserved = {block.line_id for block in blocks if block not in ended}
        lacking = [line for line in waiting.items() if line[0] not in reserved]
        outcomes.append(bool(ended or lacking))
        for line in lacking[: changes_max - len(ended)]:
            held.hold(None, open_line_block(work.take_id(), asked.holder_id, asked.institution_id, line, work.now))
    await work.write()
    return outcomes


RESERVE_LINES: Final = WriteOperation("reserve_lines", reserve_lines)


async def reserve_released(batch: Batch[Any], owners: Iterable[tuple[int | None, int]]) -> None:
    """Reserve, in the transaction of a batch, what blocks of holders at accounts have released: it may not be credited yet."""
    lying = sorted({(account_id, holder_id) for account_id, holder_id in owners if account_id is not None})
    if lying:
        lines = [AccountLines(institution_id=account_id, holder_id=holder_id) for account_id, holder_id in lying]
        # All of it at once: what is left to a later batch could be spent before.
        await reserve_lines(Batch(lines, batch.connection, batch.clock), sys.maxsize)


class Uncovered(OrderRule):
    """Delays a holder's orders while more is blocked at the institution than here."""

    rank = 55

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        del work, batch
        return False

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        blocked = [each for each in waiting if each.is_holders and each.balance.blocks_count]
        holder_ids = sorted({each.balance.holder_id for each in blocked})
        blocks = await movement_store.list_uncovered_blocks(connection, holder_ids) if blocked else ()
        # The institution did not block the amount of a waiting line.
        uncovered = {block.holder_id for block in blocks if block.line_id is None}
        reason = "the institution has blocked more of the holder's money than is blocked here"
        return {each.name: reason for each in blocked if each.ordered.holder_id in uncovered}


class HeldCredits(SuspectCredits):
    """Payments that an institution holds as suspect: the money has arrived and is in a block, so that it cannot be spent."""

    async def read(self, work: UnitOfWork, reports: Sequence[CreditReport], known: Mapping[str, Transfer]) -> None:
        # Most report that a payment has come and settled at once.
        in_steps = (CreditAccepted, CreditHeld, CreditCancelled)
        if any(isinstance(report, in_steps) for report in reports) or any(
            transfer.status == "PROCESSING" for transfer in known.values()
        ):
            await work.claim(HeldBlocks).read()

    def is_held(self, work: UnitOfWork, transfer: Transfer) -> bool:
        return work.claim(HeldBlocks).open.find_of_transfer(transfer.holder_id, transfer.id) is not None

    def hold(self, work: UnitOfWork, transfer: Transfer, report: CreditHeld, charge: Charge | None) -> None:
        block = open_suspect_credit(transfer, work.take_id(), report.until, report.report_id, report.reported_at, work.now)
        work.claim(HeldBlocks).hold_suspect(transfer, block, charge)

    def release(self, work: UnitOfWork, transfer: Transfer, report: CreditReport) -> bool:
        blocks = work.claim(HeldBlocks)
        block = blocks.open.find_of_transfer(transfer.holder_id, transfer.id)
        if block is None:
            return False
        blocks.release_suspect(end_block(block, report.report_id, report.reported_at, work.now))
        return True

    async def find_hold(self, pool: Pool, transfer: Transfer) -> OrderWait | None:
        block = await movement_store.find_hold(pool, transfer)
        return None if block is None else OrderWait(waits_for="institution", since=block.created_at)

    def fail(self, transfer: Transfer, code: str, now: datetime) -> Transfer:
        reason = f"Your institution held it as suspect and returned it ({code}): {reject_code.explain(code)}"
        return fail_transfer(transfer, reject_code.CREDIT_CANCELLED, reason, now)


CLAIMS: Final = (HeldBlocks,)
ORDER_RULES: Final = (Uncovered,)
SUSPECT_CREDITS: Final = (HeldCredits(),)
