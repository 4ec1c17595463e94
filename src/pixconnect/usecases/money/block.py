"""Blocks that an institution tells of: money of a holder that may not be spent until the institution says so.

A report says all of each block as it is at an instant, so the last one that was said counts, in whatever order they come. Each
is taken under the balance's lock. What cannot be believed is kept for an operator, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.domain.money import block as block_rules
from pixconnect.domain.money.block_report import BlockReport, BlockTerms
from pixconnect.domain.money.kept_report import Misfit
from pixconnect.domain.money.rail import Acknowledgement
from pixconnect.store.money import block as block_store
from pixconnect.store.money import infraction as infraction_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money import kept_report as kept_usecases
from pixconnect.writing.batch import Batch
from pixconnect.writing.operation import WriteOperation
from pixconnect.writing.unit_of_work import UnitOfWork, lock_balances

_NOBODYS: Final = Misfit(reason="cannot_be_recorded", explanation="it is on an account that nobody has here")


_UNDECIDED: Final = Misfit(
    reason="contradiction", explanation="it ends the block of a contest that nothing is decided of"
)


class ReportedBlocks(Struct, frozen=True, kw_only=True):
    """What one report says of blocks on one holder's account."""

    holder_id: int
    institution_id: int | None
    report_id: str
    blocks: tuple[BlockTerms, ...]
    told_at: datetime


async def receive_blocks(context: Context, report: BlockReport) -> Acknowledgement:
    """Take over what a report says; nothing that the institution blocks can be refused."""
    holder_id = await _find_blocked_holder(context, report)
    misfits = [_NOBODYS]
    if holder_id is not None:
        account = context.policy.account
        told = ReportedBlocks(
            holder_id=holder_id,
            institution_id=account and account.id,
            report_id=report.report_id,
            blocks=report.blocks,
            told_at=report.told_at,
        )
        misfits = await context.writes.submit(RECEIVE_BLOCKS, told)
    for misfit in misfits:
        await kept_usecases.keep(context.pool, report, misfit)
    return Acknowledgement(report_id=report.report_id)


async def _find_blocked_holder(context: Context, report: BlockReport) -> int | None:
    """Whose money it is. What an institution blocks of a whole account is the house's."""
    if context.policy.account is not None:
        return context.policy.account.house_id
    account = await context.directory.find_account(report.party.branch, report.party.account_number)
    return account and account.holder_id


async def _receive_blocks(batch: Batch[ReportedBlocks]) -> list[list[Misfit]]:
    work = await lock_balances(batch)
    await work.read_blocks()
    known = await _read_known(work, batch)
    contested = await infraction_store.find_open_names(work.connection, [name for _, name in known])
    outcomes: list[list[Misfit]] = []
    for told in batch:
        misfits: list[Misfit] = []
        for terms in told.blocks:
            name = (told.institution_id, terms.reference)
            block = work.blocks.find(told.holder_id, terms.reference) or known.get(name)
            misfit = block_rules.find_block_misfit(block, terms, told.holder_id, told.told_at)
            if misfit is None and terms.wanted_cents == 0 and name in contested:
                misfit = _UNDECIDED
            if misfit is not None:
                misfits.append(misfit)
            elif block is None or told.told_at > block.told_at:
                known[name] = _tell_block(work, told, block, terms)
        outcomes.append(misfits)
    await work.write()
    return outcomes


RECEIVE_BLOCKS: Final = WriteOperation("receive_blocks", _receive_blocks)


async def _read_known(
    work: UnitOfWork, batch: Sequence[ReportedBlocks]
) -> dict[tuple[int | None, str], block_rules.Block]:
    """Blocks that are told of again, by account and reference; those that are open are locked with their balances."""
    known: dict[tuple[int | None, str], block_rules.Block] = {}
    for account_id in {told.institution_id for told in batch}:
        names = [terms.reference for told in batch if told.institution_id == account_id for terms in told.blocks]
        found = await block_store.find_named(work.connection, names, account_id)
        known.update(((account_id, reference), block) for reference, block in found.items())
    return known


def _tell_block(
    work: UnitOfWork, told: ReportedBlocks, block: block_rules.Block | None, terms: BlockTerms
) -> block_rules.Block:
    """Open or change a block as it is told, and cover or release what that changes."""
    if block is not None:
        return work.hold(block, block_rules.change_block(block, terms, told.report_id, told.told_at, work.now))
    opened = block_rules.open_block(
        terms, work.take_id(), told.holder_id, told.institution_id, told.report_id, told.told_at, work.now
    )
    return work.hold(None, opened)
