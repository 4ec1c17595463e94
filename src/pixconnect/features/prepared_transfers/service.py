"""Transfers in two steps: prepared, which moves nothing, and approved, which sends.

A prepared transfer is stored before the caller gets an answer, so it can still be approved, once, after a crash.
"""

from __future__ import annotations

from msgspec import Struct

from pixconnect.features.prepared_transfers import tables as prepared_store
from pixconnect.features.prepared_transfers.rules import PreparedTransfer, is_approved_by, read_request
from pixconnect.kernel.flows import payee as payee_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import Context, write_alone
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.rules import identifiers, money
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party, PixKey
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.transfer import KeyTransferRequest, SendingTerms, Transfer, TransferRequest
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors


class Approval(Struct, frozen=True, kw_only=True):
    prepared: PreparedTransfer
    transfer: Transfer | None
    """``None`` until it is approved."""


async def prepare_transfer(context: Context, caller: Caller, prepared: PreparedTransfer) -> Party:
    """Store a transfer to be sent once approved; return the payee, as far as known now.

    Raises:
        ExternalIdConflict: The name was used, for anything.
        PixKeyNotFound: The key does not exist; that costs tokens.
    """
    await _refuse_repeat(context, caller, prepared.external_id)
    money.check_amount(prepared.amount_cents)
    payee = await _find_payee(context, caller, read_request(prepared))
    async with write_alone(context.pool) as connection:
        if not await prepared_store.insert(connection, prepared):
            raise errors.ExternalIdConflict("external_id: was already used for a transfer that was prepared")
    return payee


async def approve_transfer(context: Context, caller: Caller, external_id: str, *, is_new: bool) -> Approval:
    """Send a prepared transfer; a repetition returns the same transfer, or is refused.

    Raises:
        InsufficientFunds: Nothing was done: it can be approved later. Likewise for all other refusals.
    """
    found = await find_prepared(context, caller, external_id)
    terms = SendingTerms(payer_message=found.prepared.payer_message, is_new=is_new)
    view = await transfer_usecases.start_transfer(context, caller, read_request(found.prepared), terms)
    return Approval(prepared=found.prepared, transfer=view.transfer)


async def find_prepared(context: Context, caller: Caller, external_id: str) -> Approval:
    found = await prepared_store.find_by_external_ids(context.pool, caller.holder_id, [external_id])
    if external_id not in found:
        raise errors.NotFound("external_id: there is no such prepared transfer")
    # Read after: a concurrently approved transfer is seen, and an earlier one is never missed.
    transfer = await transfer_store.find_by_external_id(context.pool, caller.holder_id, external_id)
    return _join(found[external_id], transfer)


async def list_prepared(context: Context, caller: Caller, span: Span) -> Page[Approval]:
    """One page of them, in any state, newest first."""
    page = await prepared_store.read_page(context.pool, caller.holder_id, span)
    async with context.pool.acquire() as connection:
        wanted = [(prepared.external_id, caller.holder_id) for prepared in page.items]
        made = await transfer_store.find_external(connection, wanted)
    return page.with_items(
        [_join(prepared, made.get((caller.holder_id, prepared.external_id))) for prepared in page.items]
    )


def _join(prepared: PreparedTransfer, transfer: Transfer | None) -> Approval:
    is_its_own = transfer is not None and is_approved_by(prepared, transfer)
    return Approval(prepared=prepared, transfer=transfer if is_its_own else None)


async def find_key(context: Context, caller: Caller, key: PixKey) -> Party:
    """Find a key's owner, which costs the caller tokens."""
    return await _find_payee(context, caller, KeyTransferRequest(amount_cents=1, key=key.key, key_type=key.key_type))


async def _find_payee(context: Context, caller: Caller, request: TransferRequest) -> Party:
    end_to_end_id = identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy)
    lookup = Lookup()
    try:
        payee = await payee_usecases.find_payee(context, caller, request, end_to_end_id, lookup)
    finally:
        context.lookups.spend(context, caller.holder_id, lookup)
    if payee is None:
        raise errors.ServiceUnavailable("the directory or the code's location cannot be reached; nothing was done")
    return payee.party


async def _refuse_repeat(context: Context, caller: Caller, external_id: str) -> None:
    prepared = await prepared_store.find_by_external_ids(context.pool, caller.holder_id, [external_id])
    if prepared or await transfer_store.find_by_external_id(context.pool, caller.holder_id, external_id):
        raise errors.ExternalIdConflict("external_id: was already used")
