"""Who was paid, of a transfer over an account at an institution: where that is told with its end, it is kept beside it.

It changes no money, and nothing of what was accepted: answers to callers stay what they were.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from pixconnect.domain.institutions.known_party import complete_party
from pixconnect.domain.money.order import Ending
from pixconnect.domain.money.rail import Settled
from pixconnect.domain.money.transfer import Transfer
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.money import settled_payee as payee_store


async def note_payee(connection: Connection, sent: Transfer, ending: Ending, now: datetime) -> None:
    """Keep what an ending tells of a payee beyond what is known, in the transaction that writes that ending."""
    if not isinstance(ending, Settled) or ending.payee is None or sent.institution_id is None:
        return
    payee = complete_party(sent.counterparty, ending.payee)
    if payee != sent.counterparty:
        await payee_store.insert(connection, sent.id, sent.holder_id, payee, now)


async def with_payee(pool: Pool, transfer: Transfer) -> Transfer:
    """A transfer with all that is known of who was paid."""
    if transfer.direction == "IN" or transfer.institution_id is None or transfer.settled_at is None:
        return transfer
    payee = await payee_store.find(pool, transfer.id, transfer.holder_id)
    return transfer if payee is None else structs.replace(transfer, counterparty=payee)
