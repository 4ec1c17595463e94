"""Finds the payee by key, by account or by QR code, before anything is locked.

If a system that a rule depends on cannot be reached, the payee is ``None``: the caller checks all other rules first, and only
then reports that the service is unavailable.

An institution may report the payee only with the end. We store that beside the transfer: it changes no money and nothing of the
accepted request, so answers to callers stay the same.
"""

from datetime import datetime

from msgspec import structs

from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import with_key
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.flows.source import source_of
from pixconnect.kernel.rules import br_code, identifiers, tax_id
from pixconnect.kernel.rules import holder as holder_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import BrCode
from pixconnect.kernel.rules.charge import PAID, asked_amount_cents, fixed_amount_cents
from pixconnect.kernel.rules.holder import Party, PixKey, complete_party
from pixconnect.kernel.rules.location import LocationUnreachable, OutsideCharge
from pixconnect.kernel.rules.order import Ending
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.transfer import (
    AccountTransferRequest,
    KeyTransferRequest,
    Payee,
    QrCodeTransferRequest,
    Transfer,
    TransferRequest,
)
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


async def find_payee(
    context: Context, caller: Caller, request: TransferRequest, end_to_end_id: str, lookup: Lookup
) -> Payee | None:
    """Find the payee; ``None`` if a required system cannot be reached.

    Raises:
        RuleBroken: Any refusal between LIMIT_EXCEEDED and HOLDER_BLOCKED in the documented order.
        RateLimited: The holder looked up too many keys and did not pay them.
    """
    match request:
        case KeyTransferRequest():
            key = holder_rules.parse_pix_key(request.key, request.key_type)
            payee = await _find_by_key(context, caller, key, end_to_end_id, lookup)
        case AccountTransferRequest():
            payee = await _find_by_account(context, caller, request.credit_party, lookup)
        case QrCodeTransferRequest():
            payee = await _find_by_code(context, caller, request, end_to_end_id, lookup)
    if payee is not None and payee.holder_id == caller.holder_id:
        raise errors.SameAccount("payer and payee are the same account")
    return payee


async def look_up(context: Context, caller: Caller, request: TransferRequest) -> tuple[str, Party]:
    """Find a payee before a transfer, which costs the caller tokens; return the name under which it was looked up too."""
    end_to_end_id = identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy)
    lookup = Lookup()
    try:
        payee = await find_payee(context, caller, request, end_to_end_id, lookup)
    finally:
        context.lookups.spend(context, caller.holder_id, lookup)
    if payee is None:
        raise errors.ServiceUnavailable("the directory or the code's location cannot be reached; nothing was done")
    return end_to_end_id, payee.party


async def look_up_key(context: Context, caller: Caller, key: PixKey) -> tuple[str, Party]:
    # The payee of a key does not depend on the amount.
    return await look_up(context, caller, KeyTransferRequest(amount_cents=1, key=key.key, key_type=key.key_type))


async def read_code_amount(context: Context, caller: Caller, text: str) -> int:
    """Read a code's present amount; its target is checked on payment."""
    code = br_code.parse_br_code(text)
    if code.location is None:
        amount_cents = code.fixed_amount_cents
    elif code.location.startswith(context.policy.location_prefix):
        charge = await context.directory.find_served(code.location.removeprefix(context.policy.location_prefix))
        amount_cents = None if charge is None else asked_amount_cents(charge, context.clock.now()) or None
    else:
        try:
            amount_cents = (await read_outside(context, caller, code.location)).amount_cents
        except LocationUnreachable:
            raise errors.ServiceUnavailable("the code's location cannot be reached; nothing was done") from None
    if amount_cents is None:
        raise errors.InvalidQrCode("emv: asks for no amount")
    return amount_cents


async def _find_by_key(context: Context, caller: Caller, key: PixKey, end_to_end_id: str, lookup: Lookup) -> Payee | None:
    # Before any look-up: a holder without tokens learns nothing, not even about our own holders.
    async with context.lookups.looking_up(context, caller.holder_id, lookup):
        if (holder_id := await context.directory.find_owner(key.key)) is not None:
            lookup.found = "somebody"
            own = await context.directory.read_account(holder_id)
            return Payee(party=with_key(own.party, key), holder_id=holder_id)
        payer = await context.directory.read_account(caller.holder_id)
        return await source_of(payer).find_payee(context, payer, key, end_to_end_id, lookup)


async def _find_by_account(context: Context, caller: Caller, party: Party, lookup: Lookup) -> Payee:
    key = None if party.key is None else holder_rules.parse_pix_key(party.key, party.key_type)
    tax_id.check_tax_id(party.tax_id, "credit_party.tax_id")
    holder_rules.check_account(party.branch, party.account_number, party.ispb)
    # Only the other institution knows whether an account there exists.
    if party.ispb != context.policy.ispb:
        return Payee(party=with_key(party, key), holder_id=None)
    async with context.lookups.looking_up(context, caller.holder_id, lookup):
        own = await context.directory.find_account(party.branch, party.account_number)
        lookup.found = "somebody" if own else "nobody"
    if own is not None:
        return Payee(party=with_key(own.party, key), holder_id=own.holder_id)
    raise errors.InvalidAccount("credit_party.account_number: no such account at this institution")


async def _find_by_code(
    context: Context, caller: Caller, request: QrCodeTransferRequest, end_to_end_id: str, lookup: Lookup
) -> Payee | None:
    code = br_code.parse_br_code(request.br_code)
    # Whether a charge has expired depends on the present time, not on this process's last reading.
    await service_now(context.clock, context.pool)
    if code.location is None:
        return await _find_by_static_code(context, caller, code, request.amount_cents, end_to_end_id, lookup)
    if code.location.startswith(context.policy.location_prefix):
        return await _find_by_own_code(context, code.location, request.amount_cents)
    try:
        asked = await read_outside(context, caller, code.location)
    except LocationUnreachable:
        return None
    # Mistakes in the key precede mistakes in the charge.
    payee = await _find_by_key(context, caller, key_of_code(asked.key), end_to_end_id, lookup)
    if asked.status == "CONCLUIDA":
        raise errors.QrCodeAlreadyPaid("emv: the charge behind the code was paid")
    if asked.status != "ATIVA" or (asked.expires_at is not None and context.clock.now() >= asked.expires_at):
        raise errors.QrCodeExpired("emv: the charge behind the code can no longer be paid")
    _check_code_amount(asked.amount_cents, request.amount_cents)
    payee = await _add_charge(context, caller, payee, asked.txid, is_static=False)
    return payee and structs.replace(payee, txid=asked.txid, leaves_amount_open=asked.amount_cents is None)


async def _add_charge(
    context: Context, caller: Caller, payee: Payee | None, name: str | None, *, is_static: bool
) -> Payee | None:
    """Add the charge that a payment by book names, and pay its holder, as a payment from outside does.

    Raises:
        QrCodeAlreadyPaid: It was paid, and its dynamic code can be paid once.
    """
    if payee is None or payee.holder_id is None or name is None:
        return payee
    # Book transfers stay on the payer's account, where the code of a holder that was succeeded remains payable.
    source = source_of(await context.directory.read_account(caller.holder_id))
    charge = await source.find_named_charge(context.pool, payee.holder_id, name)
    if charge is None:
        return structs.replace(payee, is_static=is_static)
    if charge.status in PAID and not is_static:
        raise errors.QrCodeAlreadyPaid("emv: the charge behind the code was paid")
    party = payee.party
    if charge.holder_id != payee.holder_id:
        key = None if party.key is None else holder_rules.parse_pix_key(party.key, party.key_type)
        party = with_key((await context.directory.read_account(charge.holder_id)).party, key)
    return structs.replace(payee, party=party, holder_id=charge.holder_id, charge=charge, is_static=is_static)


async def read_outside(context: Context, caller: Caller, location: str) -> OutsideCharge:
    """Read the payload at an outside location; a location without one always costs as much as a missing key."""
    fetch = Lookup("nobody")
    async with context.lookups.looking_up(context, caller.holder_id, fetch):
        asked = await context.locations.read(location)
        fetch.found = None
    return asked


async def _find_by_static_code(
    context: Context, caller: Caller, code: BrCode, amount_cents: int, end_to_end_id: str, lookup: Lookup
) -> Payee | None:
    if code.key is None:
        raise errors.InvalidQrCode("emv: is a recurrence alone, which cannot be paid")
    payee = await _find_by_key(context, caller, key_of_code(code.key), end_to_end_id, lookup)
    _check_code_amount(code.fixed_amount_cents, amount_cents)
    payee = await _add_charge(context, caller, payee, code.txid, is_static=True)
    return payee and structs.replace(payee, txid=code.txid, leaves_amount_open=code.fixed_amount_cents is None)


async def _find_by_own_code(context: Context, location: str, amount_cents: int) -> Payee:
    directory = context.directory
    charge = await directory.find_served(location.removeprefix(context.policy.location_prefix))
    if charge is None:
        raise errors.InvalidQrCode("emv: its location serves no charge")
    # As the directory would answer a payer at another institution.
    if await directory.find_owner(charge.key) != charge.holder_id:
        raise errors.PixKeyNotFound("emv: the Pix key of the charge behind the code was removed")
    if charge.status in PAID:
        raise errors.QrCodeAlreadyPaid("emv: the charge behind the code was paid")
    if charge.status != "PENDING" or context.clock.now() >= charge.expires_at:
        raise errors.QrCodeExpired("emv: the charge behind the code has expired")
    _check_code_amount(fixed_amount_cents(charge, context.clock.now()), amount_cents)
    party = with_key((await directory.read_account(charge.holder_id)).party, holder_rules.parse_pix_key(charge.key))
    return Payee(party=party, holder_id=charge.holder_id, txid=charge.txid, charge=charge)


def key_of_code(text: str) -> PixKey:
    try:
        return holder_rules.parse_pix_key(text)
    except errors.InvalidPixKey:
        raise errors.PixKeyNotFound("emv: names a Pix key that no directory could know") from None


def _check_code_amount(asked_cents: int | None, amount_cents: int) -> None:
    if asked_cents is not None and asked_cents != amount_cents:
        raise errors.AmountMismatch(f"amount: the QR code asks for exactly {asked_cents} cents")


async def note_payee(connection: Connection, sent: Transfer, ending: Ending, now: datetime) -> None:
    """Store an ending's new facts about a payee, in the transaction that writes that ending."""
    if not isinstance(ending, Settled) or ending.payee is None or not source_of(sent).may_name_payee_at_end:
        return
    payee = complete_party(sent.counterparty, ending.payee)
    # A row that repeats the transfer's facts would be useless.
    if payee != sent.counterparty:
        await transfer_store.insert_settled_payee(connection, sent.id, sent.holder_id, payee, now)


async def with_payee(pool: Pool, transfer: Transfer) -> Transfer:
    """Return a transfer with all known facts about its payee."""
    # Only the others can have a row, and each transfer shown would cost a query.
    if transfer.direction == "IN" or transfer.settled_at is None or not source_of(transfer).may_name_payee_at_end:
        return transfer
    payee = await transfer_store.find_settled_payee(pool, transfer.id, transfer.holder_id)
    return transfer if payee is None else structs.replace(transfer, counterparty=payee)
