"""Payments that an institution holds as suspect: the money has arrived and is in a block, so that it cannot be spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pixconnect.features.contests.rules import block as block_rules
from pixconnect.features.contests.service.held_blocks import HeldBlocks
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.rail import CreditAccepted, CreditCancelled, CreditHeld, CreditReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork

return_held: Final = block_rules.return_suspect_credit


async def read_held(work: UnitOfWork, reports: Iterable[CreditReport], known: Mapping[str, Transfer]) -> None:
    """Read the blocks that reports may open or end, if any may: most reports are of payments settled at once."""
    in_steps = (CreditAccepted, CreditHeld, CreditCancelled)
    if any(isinstance(report, in_steps) for report in reports) or any(
        transfer.status == "PROCESSING" for transfer in known.values()
    ):
        await work.claim(HeldBlocks).read()


def is_held(work: UnitOfWork, transfer: Transfer) -> bool:
    return work.claim(HeldBlocks).open.find_of_transfer(transfer.holder_id, transfer.id) is not None


def hold(work: UnitOfWork, transfer: Transfer, report: CreditHeld, charge: Charge | None) -> None:
    """Block the received money, so that it exists and cannot be spent."""
    block = block_rules.open_suspect_credit(
        transfer, work.take_id(), report.until, report.report_id, report.reported_at, work.now
    )
    work.claim(HeldBlocks).hold_suspect(transfer, block, charge)


def release(work: UnitOfWork, transfer: Transfer, report: CreditReport) -> bool:
    """Release the block of a payment that was held as suspect; return whether it was."""
    blocks = work.claim(HeldBlocks)
    block = blocks.open.find_of_transfer(transfer.holder_id, transfer.id)
    if block is None:
        return False
    blocks.release_suspect(block_rules.end_suspect_credit(block, report.report_id, report.reported_at, work.now))
    return True
