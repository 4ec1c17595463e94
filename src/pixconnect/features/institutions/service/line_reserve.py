"""Reserves the sum of each debit of a statement that waits: the bank may have taken it, so the house cannot pay it out.

::

    a debit waits                        a block of the house opens: available -> blocked, as far as there is money
    money comes in, less is reserved     it covers what is still lacking, as of any block
    the debit becomes a movement         the block ends in the transaction that posts the movement
    joined, set aside, struck            the block ends when the account's lines are settled: blocked -> available

The lines decide, not their history: each run compares waiting debits with open blocks, so that reading a file again changes
nothing, and a run after a crash does the rest. A waiting credit gives nothing, since it has no entry.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pixconnect.features.contests.rules.block import open_line_block
from pixconnect.features.contests.service.held_blocks import HeldBlocks
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.tables import reserved_line as reserved_store
from pixconnect.kernel.flows.available import lock_balances
from pixconnect.kernel.flows.context import Writer
from pixconnect.kernel.writing.batch import Batch, WriteOperation

_CHANGED_AT_ONCE: Final = 50
"""Each takes up to two ids of the batch."""


class AccountLines(Struct, frozen=True, kw_only=True):
    institution_id: int
    holder_id: int
    """The account's house."""


async def reserve_lines(context: Writer, account: InstitutionAccount) -> None:
    """Make the blocks of an account's house those of the debits that wait. Call it where no line is judged meanwhile."""
    asked = AccountLines(institution_id=account.id, holder_id=account.house_id)
    while await reserved_store.differs(context.pool, account.id):
        # What another has done meanwhile, or what no run can do, is not tried again.
        if not await context.writes.submit(RESERVE_LINES, asked):
            return


async def _reserve_lines(batch: Batch[AccountLines]) -> list[bool]:
    """For each account, whether anything was changed."""
    work = await lock_balances(batch)
    held = work.claim(HeldBlocks)
    await held.read()
    outcomes: list[bool] = []
    for asked in batch:
        # After the lock: who posts a line as a movement of the house ends its block under the same one.
        waiting = await reserved_store.list_waiting(batch.connection, asked.institution_id)
        blocks = [one for one in held.open.list_of(asked.holder_id) if one.state == "open" and one.line_id is not None]
        ended = [block for block in blocks if block.line_id not in waiting][:_CHANGED_AT_ONCE]
        for block in ended:
            held.end_line(block)
        reserved = {block.line_id for block in blocks}
        lacking = [line for line in waiting.items() if line[0] not in reserved]
        outcomes.append(bool(ended or lacking))
        for line in lacking[: _CHANGED_AT_ONCE - len(ended)]:
            held.hold(None, open_line_block(work.take_id(), asked.holder_id, asked.institution_id, line, work.now))
    await work.write()
    return outcomes


RESERVE_LINES: Final = WriteOperation("reserve_lines", _reserve_lines)
