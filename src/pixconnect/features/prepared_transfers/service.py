"""Transfers in two steps: prepared, which moves nothing, and approved, which sends; or initiated and confirmed.

A prepared transfer is stored before the caller gets an answer, so it can still be approved, once, after a crash. Initiating
only finds the payee and returns the name of the future transfer.
"""

from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.features.pix_api.service.cents_records import Order, Orders
from pixconnect.features.prepared_transfers import tables as prepared_store
from pixconnect.features.prepared_transfers.rules import InitiatedTransfer, PreparedTransfer, is_approved_by, read_request
from pixconnect.kernel.flows import payee as payee_usecases
from pixconnect.kernel.flows.context import Context, of_caller, write_alone
from pixconnect.kernel.flows.transfer import start_transfer
from pixconnect.kernel.rules import money
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party, PixKey
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.transfer import KeyTransferRequest, SendingTerms, Transfer
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Pool

Repeat = Literal["refused", "answered", "sent_again"]  # the result of a repeated confirmation


class Approval(Struct, frozen=True, kw_only=True):
    prepared: PreparedTransfer
    transfer: Transfer | None  # ``None`` until it is approved


async def prepare_transfer(context: Context, caller: Caller, prepared: PreparedTransfer) -> Party:
    """Store a transfer to be sent once approved; return the payee, as far as known now.

    Raises:
        ExternalIdConflict: The name was used, for anything.
        PixKeyNotFound: The key does not exist; that costs tokens.
    """
    name = caller.holder_id, prepared.external_id
    if await prepared_store.find(context.pool, *name) or await transfer_store.find_by_external_id(context.pool, *name):
        raise errors.ExternalIdConflict("external_id: was already used")
    money.check_amount(prepared.amount_cents)
    _, payee = await payee_usecases.look_up(context, caller, read_request(prepared))
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
    view = await start_transfer(context, caller, read_request(found.prepared), terms)
    return Approval(prepared=found.prepared, transfer=view.transfer)


async def find_prepared(context: Context, caller: Caller, external_id: str) -> Approval:
    found = await prepared_store.find(context.pool, caller.holder_id, external_id)
    prepared = errors.found(found, "external_id: there is no such prepared transfer")
    # Read after: a concurrently approved transfer is seen, and an earlier one is never missed.
    transfer = await transfer_store.find_by_external_id(context.pool, caller.holder_id, external_id)
    return _join(prepared, transfer)


async def list_prepared(context: Context, caller: Caller, span: Span) -> Page[Approval]:
    page = await prepared_store.read_page(context.pool, caller.holder_id, span)
    async with context.pool.acquire() as connection:
        wanted = [(prepared.external_id, caller.holder_id) for prepared in page.items]
        made = await transfer_store.find_external(connection, wanted)
    return page.with_items([_join(prepared, made.get((caller.holder_id, prepared.external_id))) for prepared in page.items])


def _join(prepared: PreparedTransfer, transfer: Transfer | None) -> Approval:
    is_its_own = transfer is not None and is_approved_by(prepared, transfer)
    return Approval(prepared=prepared, transfer=transfer if is_its_own else None)


class PreparedOrders(Orders):
    async def find(self, pool: Pool, transfer: Transfer) -> Order | None:
        name = transfer.external_id or ""
        prepared = await prepared_store.find(pool, transfer.holder_id, name)
        # A transfer that only has the same name was sent through another API: it is reported as such.
        return prepared if prepared is not None and is_approved_by(prepared, transfer) else None


ORDERS: Final = (PreparedOrders(),)


async def initiate_transfer(context: Context, caller: Caller, key: PixKey) -> InitiatedTransfer:
    """Find a key's owner, and name the transfer that may follow; it costs a look-up until that is paid."""
    end_to_end_id, payee = await payee_usecases.look_up_key(context, caller, key)
    async with write_alone(context.pool) as connection:
        initiated = InitiatedTransfer(
            end_to_end_id=end_to_end_id,
            holder_id=caller.holder_id,
            key=key.key,
            key_type=key.key_type,
            counterparty=payee,
            created_at=await service_now_to_write(context.clock, connection),
        )
        # Stored before the caller gets the name, so the second step finds it after a crash.
        await prepared_store.INITIATED_TRANSFER.insert(connection, initiated)
    return initiated


find_initiated: Final = of_caller(prepared_store.find_initiated)


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
