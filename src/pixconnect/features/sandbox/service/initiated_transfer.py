"""Transfers in two steps: the first only finds the payee and returns the name of the future transfer.

The name is stored before the caller gets it, so the second step finds it after a crash.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import structs

from pixconnect.features.prepared_transfers import tables as prepared_store
from pixconnect.features.prepared_transfers.rules import InitiatedTransfer
from pixconnect.kernel.flows.context import Context, of_caller, write_alone
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.flows.payee import find_payee
from pixconnect.kernel.flows.transfer import start_transfer
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import PixKey
from pixconnect.kernel.rules.transfer import KeyTransferRequest, SendingTerms, Transfer
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.writing.service_time import service_now_to_write
from pixconnect.platform.base import errors

Repeat = Literal["refused", "answered", "sent_again"]
"""The result of a repeated confirmation."""


async def initiate_transfer(context: Context, caller: Caller, key: PixKey) -> InitiatedTransfer:
    """Find a key's owner, and name the transfer that may follow; it costs a look-up until that is paid."""
    end_to_end_id = identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy)
    # The payee of a key does not depend on the amount.
    request = KeyTransferRequest(amount_cents=1, key=key.key, key_type=key.key_type)
    lookup = Lookup()
    try:
        payee = await find_payee(context, caller, request, end_to_end_id, lookup)
    finally:
        context.lookups.spend(context, caller.holder_id, lookup)
    if payee is None:
        raise errors.ServiceUnavailable("the directory cannot be reached; nothing was done")
    async with write_alone(context.pool) as connection:
        initiated = InitiatedTransfer(
            end_to_end_id=end_to_end_id,
            holder_id=caller.holder_id,
            key=key.key,
            key_type=key.key_type,
            counterparty=payee.party,
            created_at=await service_now_to_write(context.clock, connection),
        )
        await prepared_store.INITIATED_TRANSFER.insert(connection, initiated)
    return initiated


find_initiated: Final = of_caller(prepared_store.find_initiated)
"""The caller's initiated transfer of this name."""


async def confirm_transfer(
    context: Context,
    caller: Caller,
    initiated: InitiatedTransfer,
    amount_cents: int,
    payer_message: str | None,
    *,
    repeat: Repeat,
) -> Transfer:
    """Send an initiated transfer, under its name; it also names the request, so that a repetition sends nothing more.

    Raises:
        ExternalIdConflict: It was confirmed already, and is refused then; or it was confirmed with another amount.
        PayeeIsAnother: The key's owner differs from the one in the first step.
    """
    request = KeyTransferRequest(
        amount_cents=amount_cents, key=initiated.key, key_type=initiated.key_type, external_id=initiated.end_to_end_id
    )
    terms = SendingTerms(
        payer_message=payer_message,
        payee_tax_id=initiated.counterparty.tax_id,
        is_new=repeat == "refused",
        end_to_end_id=initiated.end_to_end_id,
    )
    if repeat == "sent_again" and await transfer_store.find_by_external_id(
        context.pool, caller.holder_id, initiated.end_to_end_id
    ):
        # One name is one transfer in the books, so the second has its own.
        request = structs.replace(request, external_id=None)
        terms = structs.replace(terms, end_to_end_id=None)
    return (await start_transfer(context, caller, request, terms)).transfer
