"""The sandbox's doors: what people outside do, for the holder who asks.

The rules are those of the scheme: whatever reaches the rail is answered by the rail, and only what could not be meant for this
holder is refused before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pixconnect.domain import br_code, errors, identifiers, money, pix_key, tax_id
from pixconnect.domain.access import Caller
from pixconnect.domain.holder import Party
from pixconnect.domain.rail import DirectoryEntry
from pixconnect.domain.sandbox_control import (
    Arrival,
    FaultRule,
    NewKey,
    NewQrCode,
    OutsidePayer,
    OutsideTransfer,
    SandboxControl,
    SandboxRefusal,
    SandboxSilent,
    SandboxUnavailable,
)
from pixconnect.store import charge as charge_store
from pixconnect.store import transfer as transfer_store
from pixconnect.usecases import clock as clock_usecases
from pixconnect.usecases import ledger as ledger_usecases
from pixconnect.usecases.context import Context
from pixconnect.usecases.directory import with_key
from pixconnect.usecases.ledger import Deposit


async def pay_by_code(
    context: Context, caller: Caller, text: str, amount_cents: int | None, payer: OutsidePayer
) -> Arrival:
    """Let somebody outside scan one of the holder's QR codes and pay.

    Args:
        context: Of this process.
        caller: Whose code it is.
        text: The BR Code.
        amount_cents: What is paid; ``None`` is what the code asks for.
        payer: Who pays.

    Raises:
        AmountOutOfRange: The amount.
        InvalidQrCode: No BR Code.
        PixKeyNotOwned: A code of somebody else.
        InvalidTaxId: The payer's.
        BadRequest: A code without an amount, and none given.
        ServiceUnavailable: The sandbox cannot be reached.
    """
    if amount_cents is not None:
        money.check_amount(amount_cents)
    code = br_code.parse_br_code(text)
    if code.location is not None:
        txid = code.location.removeprefix(context.policy.location_prefix)
        charge = await charge_store.find_by_txid(context.pool, txid) if identifiers.is_txid(txid) else None
        if charge is None or charge.holder_id != caller.holder_id:
            raise errors.PixKeyNotOwned("emv: is not a QR code of this holder")
        key, due_cents, carried = charge.key, charge.amount_cents, txid
    else:
        key, due_cents, carried = code.key or "", code.fixed_amount_cents, code.txid
    if amount_cents is None and due_cents is None:
        raise errors.BadRequest("amount: missing; the code carries none")
    party = await _own_party(context, caller, key, "emv")
    return await _pay(
        context,
        OutsideTransfer(
            credit_party=party,
            amount_cents=amount_cents or due_cents or 0,
            txid=carried,
            initiation_type="QRCODE",
            payer=payer,
        ),
    )


async def pay_by_key(context: Context, caller: Caller, key: str, amount_cents: int, payer: OutsidePayer) -> Arrival:
    """Let somebody outside pay to one of the holder's keys.

    Raises:
        AmountOutOfRange: The amount.
        InvalidPixKey: The key has no form.
        PixKeyNotOwned: The key is not this holder's.
        InvalidTaxId: The payer's.
        ServiceUnavailable: The sandbox cannot be reached.
    """
    money.check_amount(amount_cents)
    party = await _own_party(context, caller, key, "key")
    return await _pay(context, OutsideTransfer(credit_party=party, amount_cents=amount_cents, payer=payer))


async def give_back(
    context: Context, caller: Caller, end_to_end_id: str, amount_cents: int | None, reason: str
) -> Arrival:
    """Let the receiver of a transfer of this holder return it: an amount, or what is left of it.

    Raises:
        AmountOutOfRange: The amount.
        OriginalNotRefundable: Not a settled transfer of this holder over the rail.
        ServiceUnavailable: The sandbox cannot be reached.
    """
    if amount_cents is not None:
        money.check_amount(amount_cents)
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    if transfer is None or transfer.direction != "OUT" or transfer.is_book:
        raise errors.OriginalNotRefundable("end_to_end_id: is not a transfer that this holder sent over the rail")
    if amount_cents is None and transfer.returned_cents < transfer.amount_cents:
        amount_cents = transfer.amount_cents - transfer.returned_cents
    control = _control(context)
    try:
        return await control.give_back(end_to_end_id, amount_cents, reason)
    except SandboxRefusal as refusal:
        raise errors.OriginalNotRefundable(f"end_to_end_id: {refusal.message}") from None
    except SandboxUnavailable as error:
        raise _unreachable(error) from None


async def deposit(context: Context, caller: Caller, amount_cents: int) -> Deposit:
    """Put money into the holder's account."""
    _control(context)
    return await ledger_usecases.deposit(context, caller.holder_id, amount_cents)


async def list_keys(context: Context) -> list[DirectoryEntry]:
    """The directory's entries of outside accounts."""
    try:
        return await _control(context).list_keys()
    except SandboxUnavailable:
        raise errors.ServiceUnavailable("the sandbox cannot be asked") from None


async def add_key(context: Context, new: NewKey) -> DirectoryEntry:
    """Add a directory entry of a new outside account; an existing one is answered as it is.

    Raises:
        InvalidPixKey: The key has no form of its type, or is one of ours.
        InvalidTaxId: The owner's.
        ServiceUnavailable: The sandbox cannot be reached.
    """
    key = None if new.key is None else pix_key.parse_pix_key(new.key, new.key_type).key
    if key is not None and await context.directory.find_owner(key) is not None:
        raise errors.InvalidPixKey("key: belongs to a holder of this service")
    if new.tax_id is not None:
        tax_id.check_tax_id(new.tax_id, "tax_id")
    try:
        return await _control(context).add_key(NewKey(key_type=new.key_type, key=key, name=new.name, tax_id=new.tax_id))
    except SandboxRefusal as refusal:
        raise errors.InvalidPixKey(refusal.message) from None
    except SandboxUnavailable as error:
        raise _unreachable(error) from None


async def make_qr_code(context: Context, new: NewQrCode) -> str:
    """Make a QR code of an outside merchant.

    Raises:
        AmountOutOfRange: The amount.
        BadRequest: The parts make no code.
        ServiceUnavailable: The sandbox cannot be reached.
    """
    if new.amount_cents is not None:
        money.check_amount(new.amount_cents)
    try:
        return await _control(context).make_qr_code(new)
    except SandboxRefusal as refusal:
        raise errors.BadRequest(refusal.message) from None
    except SandboxUnavailable as error:
        raise _unreachable(error) from None


async def read_faults(context: Context) -> list[FaultRule]:
    """The fault rules, in the order in which they are tried."""
    try:
        return await _control(context).read_faults()
    except SandboxUnavailable:
        raise errors.ServiceUnavailable("the sandbox cannot be asked") from None


async def replace_faults(context: Context, rules: Sequence[FaultRule]) -> list[FaultRule]:
    """Replace all fault rules.

    Raises:
        BadRequest: A rule that the sandbox does not know.
        ServiceUnavailable: The sandbox cannot be reached.
    """
    control = _control(context)
    try:
        await control.replace_faults(rules)
    except SandboxRefusal as refusal:
        raise errors.BadRequest(refusal.message) from None
    except SandboxUnavailable as error:
        raise _unreachable(error) from None
    return await read_faults(context)


async def read_clock(context: Context) -> datetime:
    """The service's time."""
    _control(context)
    return await clock_usecases.read_clock(context)


async def advance_clock(context: Context, by: timedelta) -> datetime:
    """Walk the clock forward by some time; answers the service's time after it."""
    return await clock_usecases.advance_clock(context, _control(context), by)


async def move_clock(context: Context, target: datetime) -> datetime:
    """Move the clock to an instant; answers the service's time after it."""
    return await clock_usecases.move_clock(context, _control(context), target)


async def reset_clock(context: Context) -> datetime:
    """Return the clock to real time; answers it."""
    return await clock_usecases.reset_clock(context, _control(context))


def _control(context: Context) -> SandboxControl:
    if context.sandbox_control is None:
        raise errors.NotFound("there is no sandbox in live mode")
    return context.sandbox_control


def _unreachable(error: SandboxUnavailable) -> errors.PixConnectError:
    """What a caller is told who asked for something to be done."""
    if isinstance(error, SandboxSilent):
        return errors.OutcomeUnknown(
            "the sandbox gave no answer: what was asked for may have been done; look, then ask again"
        )
    return errors.ServiceUnavailable("the sandbox cannot be reached; nothing was done")


async def _own_party(context: Context, caller: Caller, text: str, field: str) -> Party:
    key = pix_key.parse_pix_key(text)
    if await context.directory.find_owner(key.key) != caller.holder_id:
        raise errors.PixKeyNotOwned(f"{field}: is not a Pix key of this holder")
    return with_key((await context.directory.read_account(caller.holder_id)).party, key)


async def _pay(context: Context, transfer: OutsideTransfer) -> Arrival:
    if transfer.payer.tax_id is not None:
        tax_id.check_tax_id(transfer.payer.tax_id, "payer.tax_id")
    try:
        return await _control(context).pay(transfer)
    except SandboxUnavailable as error:
        raise _unreachable(error) from None
