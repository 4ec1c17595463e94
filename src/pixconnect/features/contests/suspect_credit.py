"""Payments that an institution holds as suspect: the money has arrived and is in a block, so that it cannot be spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pixconnect.features.contests.rules import block as block_rules
from pixconnect.features.contests.service.held_blocks import HeldBlocks
from pixconnect.kernel.flows.credit import SuspectCredits
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.rail import CreditAccepted, CreditCancelled, CreditHeld, CreditReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork


class HeldCredits(SuspectCredits):
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
        block = block_rules.open_suspect_credit(
            transfer, work.take_id(), report.until, report.report_id, report.reported_at, work.now
        )
        work.claim(HeldBlocks).hold_suspect(transfer, block, charge)

    def release(self, work: UnitOfWork, transfer: Transfer, report: CreditReport) -> bool:
        blocks = work.claim(HeldBlocks)
        block = blocks.open.find_of_transfer(transfer.holder_id, transfer.id)
        if block is None:
            return False
        blocks.release_suspect(block_rules.end_suspect_credit(block, report.report_id, report.reported_at, work.now))
        return True

    def fail(self, transfer: Transfer, code: str, now: datetime) -> Transfer:
        return block_rules.return_suspect_credit(transfer, code, now)


SUSPECT_CREDITS: Final = (HeldCredits(),)
