"""Payers who become known later: an institution tells more of one than when it first listed the payment.

That happens once, changes no money, and is told by an event. It never contradicts what was known: such a list is kept for an
operator instead (``sweep``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.known_party import compare_parties, complete_party
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.transfer import Transfer
from pixconnect.store.money import payer_completion as completion_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.usecases.frame.context import Context
from pixconnect.writing.batch import Batch
from pixconnect.writing.operation import WriteOperation
from pixconnect.writing.unit_of_work import lock_balances


class ListedPayer(Struct, frozen=True, kw_only=True):
    holder_id: int
    transfer_id: int
    party: Party
    """As the institution tells it now."""

    @property
    def key(self) -> tuple[int, int]:
        return self.transfer_id, self.holder_id


async def complete_payers(context: Context, told: Mapping[str, tuple[Transfer, Party]]) -> None:
    """Record what lists tell of payers beyond what is recorded; of one that was completed before, nothing.

    Args:
        context: The account's.
        told: The recorded transfer and the payer as it is listed now, by end-to-end id; they do not contradict each other.
    """
    more = [
        ListedPayer(holder_id=transfer.holder_id, transfer_id=transfer.id, party=party)
        for transfer, party in told.values()
        if complete_party(transfer.counterparty, party) != transfer.counterparty
    ]
    if not more:
        return
    completed = await completion_store.find_completed(context.pool, [payer.key for payer in more])
    new = [payer for payer in more if payer.key not in completed]
    for outcome in await context.writes.submit_all(COMPLETE_PAYERS, new):
        # The next reading tells it again.
        if isinstance(outcome, errors.PixConnectError):
            raise outcome


async def _complete_payers(batch: Batch[ListedPayer]) -> list[None]:
    # The balance of its holder guards a transfer, though no money moves.
    work = await lock_balances(batch)
    wanted = sorted({payer.key for payer in batch})
    transfers = await transfer_store.lock_by_id(work.connection, wanted)
    completed = await completion_store.find_completed(work.connection, wanted)
    for payer in batch:
        before = transfers[payer.key]
        party = complete_party(before.counterparty, payer.party)
        # Another reading may have told it meanwhile, or two in this batch.
        is_new = payer.key not in completed and not compare_parties(before.counterparty, payer.party)
        if is_new and party != before.counterparty:
            completed.add(payer.key)
            after = structs.replace(before, counterparty=party)
            await completion_store.complete(work.connection, after, work.now)
            work.announce_later(after)
    await work.write()
    return [None] * len(batch)


COMPLETE_PAYERS: Final = WriteOperation("complete_payers", _complete_payers)
