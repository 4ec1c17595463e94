"""Acts of outside parties for the calling holder: checked against our rows here, and done by the sandbox.

The rules are the scheme's: the rail answers all other errors. Before that only calls that cannot concern this holder are
refused.
"""

from typing import Final, Literal

from msgspec import structs

from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.rules import (
    DRAW_FAULT,
    NO_TERMS,
    Answered,
    Arrival,
    Asked,
    ControlCall,
    FaultRule,
    MadeMovementKind,
    Message,
    NewKey,
    NewQrCode,
    OutsideMovement,
    OutsideReturn,
    OutsideTransfer,
    OutsideVerdict,
    PaymentTerms,
    SandboxControl,
    SandboxRefusal,
    SandboxSilent,
    SandboxUnavailable,
    Verdict,
)
from pixconnect.kernel.flows.context import Context, Port
from pixconnect.kernel.flows.directory import with_key
from pixconnect.kernel.rules import br_code, holder, kept_report, money, reject_code, tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import asked_amount_cents
from pixconnect.kernel.rules.rail import DirectoryEntry
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.logging import has_written

SANDBOX_CONTROL: Final = Port[SandboxControl | None]("control of the sandbox", None)  # ``None`` in live mode


async def draw_fault(context: Context, message: Message) -> str:
    """The effect of the rule; empty if there is none, or no sandbox to ask."""
    control = context.port(SANDBOX_CONTROL)
    if control is None:
        return ""
    try:
        return (await control.call(DRAW_FAULT, message)).effect or ""
    except SandboxUnavailable:
        return ""


async def pay_by_code(
    context: Context, caller: Caller, text: str, amount_cents: int | None, terms: PaymentTerms = NO_TERMS
) -> Arrival:
    """Pay one of the holder's QR codes as a payer at another institution; without an amount, the code's."""
    if amount_cents is not None:
        money.check_amount(amount_cents)
    code = br_code.parse_br_code(text)
    if code.location is not None:
        return await _pay_at(context, caller, code.location, amount_cents, terms, "emv: is not a QR code of this holder")
    amount_cents = amount_cents or code.fixed_amount_cents
    return await _pay(context, caller, code.key or "", amount_cents, terms, txid=code.txid, initiation_type="QRCODE")


async def pay_by_location(
    context: Context, caller: Caller, location: str, amount_cents: int | None, terms: PaymentTerms = NO_TERMS
) -> Arrival:
    """Read the payload at one of the holder's locations as an outside payer, and pay its amount or another."""
    if amount_cents is not None:
        money.check_amount(amount_cents)
    unknown = "location: is not one of this holder that serves a charge"
    return await _pay_at(context, caller, location, amount_cents, terms, unknown)


async def _pay_at(
    context: Context, caller: Caller, location: str, amount_cents: int | None, terms: PaymentTerms, unknown: str
) -> Arrival:
    charge = await context.directory.find_served(location.removeprefix(context.policy.location_prefix))
    if charge is None or charge.holder_id != caller.holder_id:
        raise errors.PixKeyNotOwned(unknown)
    # For a free amount of 0 the payer's choice is unknown. A charge with a due date has today's amount.
    amount_cents = amount_cents or asked_amount_cents(charge, context.clock.now()) or None
    return await _pay(context, caller, charge.key, amount_cents, terms, txid=charge.txid, initiation_type="QRCODE")


async def pay_by_key(context: Context, caller: Caller, key: str, amount_cents: int, terms: PaymentTerms = NO_TERMS) -> Arrival:
    """Pay to one of the holder's keys as a payer at another institution."""
    money.check_amount(amount_cents)
    return await _pay(context, caller, key, amount_cents, terms)


async def judge_credit(context: Context, caller: Caller, end_to_end_id: str, verdict: Verdict) -> Arrival:
    """Release or return by hand one of this holder's payments that the sandbox, its institution, holds as suspect."""
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    if transfer is None or transfer.direction != "IN" or transfer.is_book or transfer.status != "PROCESSING":
        raise errors.BadRequest("endToEndId: no payment of this name is held as suspect")
    asked = OutsideVerdict(end_to_end_id=transfer.end_to_end_id, verdict=verdict)
    return await call(context, sandbox_control.JUDGE_CREDIT, asked)


async def give_back(context: Context, caller: Caller, end_to_end_id: str, amount_cents: int | None, reason: str) -> Arrival:
    """Return an amount of this holder's transfer, or the rest of it, as its receiver would."""
    if amount_cents is not None:
        money.check_amount(amount_cents)
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    if transfer is None or transfer.direction != "OUT" or transfer.is_book:
        raise errors.OriginalNotRefundable("end_to_end_id: is not a transfer that this holder sent over the rail")
    # If nothing is left, request all of it from the sandbox: the network then refuses that.
    if amount_cents is None and transfer.returned_cents < transfer.amount_cents:
        amount_cents = transfer.amount_cents - transfer.returned_cents
    asked = OutsideReturn(end_to_end_id=transfer.end_to_end_id, amount_cents=amount_cents, reason=reason)
    return await call(context, sandbox_control.GIVE_BACK, asked)


async def move(
    context: Context,
    caller: Caller,
    kind: MadeMovementKind,
    direction: Literal["IN", "OUT"],
    amount_cents: int,
    description: str | None,
) -> Arrival:
    """Move money on the holder's account as the institution.

    Raises:
        InsufficientFunds: It takes more than is available.
        HolderBlocked: The holder may not deposit.
    """
    money.check_amount(amount_cents)
    if description is not None and not kept_report.is_text(description):
        raise errors.BadRequest("text: holds a character that is no text")
    asked = OutsideMovement(
        party=(await context.directory.read_account(caller.holder_id)).party,
        kind=kind,
        direction=direction,
        amount_cents=amount_cents,
        description=description,
    )
    moved = await call(context, sandbox_control.MOVE, asked)
    if moved.status != "ERROR":
        return moved
    if moved.code == reject_code.FUNDS_LACKING:
        raise errors.InsufficientFunds("amount: is more than the available funds")
    raise errors.HolderBlocked("the holder may not deposit")


async def add_key(context: Context, new: NewKey) -> DirectoryEntry:
    """Add a directory entry of a new outside account, or return the key's existing one."""
    key = None if new.key is None else holder.parse_pix_key(new.key, new.key_type).key
    # Our own directory comes first for our keys, so an entry outside would never be found.
    if key is not None and await context.directory.find_owner(key) is not None:
        raise errors.InvalidPixKey("key: belongs to a holder of this service")
    if new.tax_id is not None:
        tax_id.check_tax_id(new.tax_id, "tax_id")
    return await call(context, sandbox_control.ADD_KEY, structs.replace(new, key=key))


async def make_qr_code(context: Context, new: NewQrCode) -> str:
    if new.amount_cents is not None:
        money.check_amount(new.amount_cents)
    return await call(context, sandbox_control.MAKE_QR_CODE, new)


async def replace_faults(context: Context, rules: list[FaultRule]) -> list[FaultRule]:
    """Replace the fault rules. The rail is queried at once about orders in doubt, whose answers a rule may have withheld."""
    replaced = await call(context, sandbox_control.REPLACE_FAULTS, rules)
    has_written.set(True)
    await order_store.ask_now(context.pool, context.clock.now())
    return replaced


async def call(context: Context, what: ControlCall[Asked, Answered], asked: Asked) -> Answered:
    """Call the sandbox, and turn its refusals and its silence into errors for the caller."""
    try:
        return await find_control(context).call(what, asked)
    except SandboxRefusal as refusal:
        raise what.refused(refusal.message) from None
    except SandboxUnavailable as error:
        # A read changes nothing, so its outcome cannot be unknown.
        if what.only_reads:
            raise errors.ServiceUnavailable(error.summary) from None
        if isinstance(error, SandboxSilent):
            raise errors.OutcomeUnknown(
                "the sandbox did not answer: it may have done what you asked for; look, then ask again"
            ) from None
        raise errors.ServiceUnavailable(f"{error.summary}; nothing was done") from None


def find_control(context: Context) -> SandboxControl:
    """Return the sandbox's control; raises ``NotFound`` in live mode."""
    return errors.found(context.port(SANDBOX_CONTROL), "there is no sandbox in live mode")


async def _pay(
    context: Context,
    caller: Caller,
    key: str,
    amount_cents: int | None,
    terms: PaymentTerms,
    *,
    txid: str | None = None,
    initiation_type: Literal["KEY", "QRCODE"] = "KEY",
) -> Arrival:
    if amount_cents is None:
        raise errors.BadRequest("amount: missing; the code carries none")
    own = holder.parse_pix_key(key)
    if await context.directory.find_owner(own.key) != caller.holder_id:
        field = "key" if initiation_type == "KEY" else "emv"
        raise errors.PixKeyNotOwned(f"{field}: is not a Pix key of this holder")
    if terms.payer.tax_id is not None:
        tax_id.check_tax_id(terms.payer.tax_id, "payer.tax_id")
    transfer = OutsideTransfer(
        credit_party=with_key((await context.directory.read_account(caller.holder_id)).party, own),
        amount_cents=amount_cents,
        txid=txid,
        initiation_type=initiation_type,
        **structs.asdict(terms),
    )
    return await call(context, sandbox_control.PAY, transfer)
