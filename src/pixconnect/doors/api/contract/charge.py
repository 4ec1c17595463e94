"""Charges in the API."""

import base64
from typing import Annotated, Final

from msgspec import Meta, Struct

from pixconnect.doors.api import paging
from pixconnect.doors.api.contract.transfer import TransferParty, show_party
from pixconnect.doors.api.envelope import AMOUNT_ON_THE_WIRE, Amount, BoundedAmount, ExternalId, Id, Instant, Listing, ListQuery
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.rules import charge as charges
from pixconnect.kernel.rules import charge_contents
from pixconnect.kernel.rules.charge import PAYER_NAME_LENGTH_MAX, ShownStatus
from pixconnect.kernel.rules.transfer import Transfer, TransferStatus
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

NEW: Final = ("EXTERNAL_ID_CONFLICT", "AMOUNT_OUT_OF_RANGE")
"""The rules that a new charge, transfer or refund may violate."""
RULES: Final = (*NEW, "INVALID_PIX_KEY", "PIX_KEY_NOT_OWNED", "INVALID_TAX_ID", "INVALID_QR_CODE")


class ChargePayer(charge_contents.Payer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payer."""

    name: Annotated[str, Meta(max_length=PAYER_NAME_LENGTH_MAX)]
    """Free text."""
    tax_id: Annotated[str, Meta(examples=["52998224725"])]
    """CPF of 11 digits or CNPJ of 14 characters, without a mask."""


class CreateChargeRequest(
    BoundedAmount, charges.ChargeRequest, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=AMOUNT_ON_THE_WIRE
):
    """A charge to be made."""

    amount_cents: Amount
    """The amount to be paid."""
    key: Annotated[str, Meta(min_length=1, max_length=77)]
    """One of your own Pix keys: it receives the payment."""
    external_id: ExternalId | None = None
    payer: ChargePayer | None = None
    """The payer whom the code names."""


class Charge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to be paid, with its QR code."""

    id: Id
    """The service's own name for it."""
    amount: Amount
    """The amount to be paid."""
    key: str
    """The Pix key that receives the payment, normalised."""
    external_id: str
    """Your own name for it, or the one that the service made."""
    status: ShownStatus
    """PENDING until it is paid (APPROVED), expires or is removed (both EXPIRED); RETURNED when all was refunded."""
    emvqrcps: str
    """The text of the QR code, to be copied and pasted."""
    base64image: str
    """The QR code as a PNG in base64 with `base64=true`, otherwise empty."""
    transaction_identification: str
    """Its txid, its name in the Pix scheme."""
    payer: ChargePayer | None = None
    """The payer whom the code names."""


class PaidBy(Struct, frozen=True, kw_only=True):
    """The payment of a charge."""

    charge_id: Id
    """The charge's `id`."""
    transfer_id: Id
    """The `id` of the transfer that paid it."""
    end_to_end_id: str
    """The transfer's name on the whole network: a refund names it."""
    amount: Amount
    """The amount paid."""
    status: TransferStatus
    """CONFIRMED; RETURNED when all of it was refunded."""
    paid_at: Instant
    """When it was paid."""
    payer: TransferParty
    """The payer and its account."""


class QrCodeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a charge is to be shown."""

    base64: bool = False
    """Whether to draw the QR code."""


class ChargeListQuery(ListQuery, frozen=True, kw_only=True):
    """Which charges."""

    status: ShownStatus = "PENDING"
    """Only charges of this status."""


async def create_charge(services: Services, request: Request[None, QrCodeQuery, CreateChargeRequest]) -> Charge:
    """Create a charge.

    Returns a charge with its QR code. The same request again (same `external_id`, same contents) returns the same charge in its
    present state; with other contents it is refused with EXTERNAL_ID_CONFLICT.
    """
    charge = await charge_usecases.create_charge(services.context, request.caller, request.body)
    return await answer_charge(services, charge, request.query)


async def get_charge_by_id(services: Services, request: Request[int, QrCodeQuery, Nothing]) -> Charge:
    """Read a charge by its id."""
    charge = await charge_usecases.read_charge_by_id(services.context, request.caller, request.parameter)
    return await answer_charge(services, charge, request.query)


async def get_charge_by_external_id(services: Services, request: Request[str, QrCodeQuery, Nothing]) -> Charge:
    """Read a charge by your own id."""
    charge = await charge_usecases.read_charge_by_external_id(services.context, request.caller, request.parameter)
    return await answer_charge(services, charge, request.query)


async def get_charge_by_txid(services: Services, request: Request[str, QrCodeQuery, Nothing]) -> Charge:
    """Read a charge by its txid."""
    charge = await charge_usecases.read_charge_by_txid(services.context, request.caller, request.parameter)
    return await answer_charge(services, charge, request.query)


async def get_charge_paid_by(services: Services, request: Request[int, Nothing, Nothing]) -> PaidBy:
    """Read the payment of a charge.

    NOT_FOUND for an unpaid charge, and for one whose payment the rail has accepted and not settled yet: the message
    distinguishes them.
    """
    transfer = await charge_usecases.read_paying_transfer(services.context, request.caller, request.parameter)
    return show_paid_by(request.parameter, transfer)


def show_paid_by(charge_id: int, transfer: Transfer) -> PaidBy:
    return PaidBy(
        charge_id=charge_id,
        transfer_id=transfer.id,
        end_to_end_id=transfer.shown_id,
        amount=transfer.amount_cents,
        status=transfer.status,
        paid_at=format_instant(errors.require(transfer.settled_at, "a payment has settled")),
        payer=show_party(transfer.counterparty),
    )


async def list_charges(services: Services, request: Request[None, ChargeListQuery, Nothing]) -> Listing[Charge]:
    """List your charges.

    Newest first. Without `status`, those that are PENDING.
    """
    asked = paging.read_asked("charges", request)
    page = await charge_usecases.list_charges(services.context, request.caller, request.query.status, asked.span)
    return asked.show(page, map(_show, page.items))


async def answer_charge(services: Services, charge: charges.Charge, query: QrCodeQuery) -> Charge:
    if not query.base64:
        return _show(charge)
    # Drawing takes milliseconds of computing, so pictures are drawn one after the other.
    return _show(charge, base64.b64encode(await services.draw_qr_png(charge.br_code)).decode())


def _show(charge: charges.Charge, picture: str = "") -> Charge:
    # The picture is always made: the contract always has the field.
    return Charge(
        id=charge.id,
        amount=charge.amount_cents,
        key=charge.key,
        external_id=charge.external_id,
        status=charge.shown_status,
        emvqrcps=charge.br_code,
        base64image=picture,
        transaction_identification=charge.txid,
        payer=ChargePayer(name=charge.payer.name, tax_id=charge.payer.tax_id) if charge.payer else None,
    )
