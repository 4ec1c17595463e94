"""Transfers in the API."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pixconnect.doors.api import paging
from pixconnect.doors.api.envelope import AMOUNT_ON_THE_WIRE, Amount, BoundedAmount, ExternalId, Id, Instant, Listing, ListQuery
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules import holder
from pixconnect.kernel.rules import tax_id as tax_ids
from pixconnect.kernel.rules import transfer as transfers
from pixconnect.kernel.rules.holder import AccountType, KeyType, Party
from pixconnect.kernel.rules.listing import TransferSearch
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, AMOUNT_MIN_CENTS
from pixconnect.kernel.rules.transfer import Direction, TransferStatus, TransferView
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

_NUMBER_LENGTH_MAX: Final = 20
_BRANCH_LENGTH_MAX: Final = 4
_NAME_LENGTH_MAX: Final = 255
_TAX_ID_LENGTH_MAX: Final = 14
PAYEE_HEADER_NAME: Final = "X-Payee-Tax-Id"
"""Names the owner of a transfer's key: the transfer is refused if the key has another."""
PAYEE_HEADER: Final = PAYEE_HEADER_NAME.lower().encode()


class TransferParty(Party, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One side of a transfer."""

    account_number: Annotated[str, Meta(min_length=1, max_length=_NUMBER_LENGTH_MAX, examples=["1001"])]
    """With its check digit, without a mask."""
    account_type: AccountType
    """The kind of account."""
    bank: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The institution's name."""
    branch: Annotated[str, Meta(min_length=1, max_length=_BRANCH_LENGTH_MAX, examples=["0001"])]
    """Without a check digit."""
    ispb: Annotated[str, Meta(examples=["99999004"])]
    """The institution's identifier, 8 characters."""
    key: str | None = None
    """A Pix key of the account."""
    key_type: KeyType | None = None
    """The key's type."""
    name: Annotated[str, Meta(min_length=1, max_length=_NAME_LENGTH_MAX)]
    """The account's owner."""
    tax_id: Annotated[str, Meta(min_length=11, max_length=_TAX_ID_LENGTH_MAX, examples=["52998224725"])]
    """The owner's CPF of 11 digits or CNPJ of 14 characters, without a mask."""


class SentFields(
    BoundedAmount, transfers.TransferFields, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=AMOUNT_ON_THE_WIRE
):
    """What each request has, however it names the payee."""

    amount_cents: Amount
    """The amount to send."""
    external_id: ExternalId | None = None


class InitiatePixWithKeyRequest(SentFields, transfers.KeyTransferRequest, frozen=True, kw_only=True):
    """A transfer to a Pix key."""

    key: Annotated[str, Meta(examples=["settle@sandbox.pix.example"])]
    """The payee's key."""
    key_type: Annotated[KeyType, Meta(examples=["EMAIL"])]
    """The key's type."""


class InitiatePixWithAccountDetailsRequest(SentFields, transfers.AccountTransferRequest, frozen=True, kw_only=True):
    """A transfer to an account."""

    credit_party: TransferParty
    """The payee's account."""


class InitiatePixWithQRCodeRequest(
    SentFields, transfers.QrCodeTransferRequest, frozen=True, kw_only=True, rename=dict(AMOUNT_ON_THE_WIRE, br_code="emv")
):
    """A transfer to the payee that a QR code names."""

    amount_cents: Amount
    """The amount to send; if the code carries one, exactly that."""
    br_code: str
    """The text of the QR code."""

    def __post_init__(self) -> None:
        BoundedAmount.__post_init__(self)
        transfers.QrCodeTransferRequest.__post_init__(self)


class Transfer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Money moved over Pix."""

    id: Id
    """The service's own name for it."""
    amount: Amount
    """The amount sent."""
    create_timestamp: Instant
    """When it was accepted."""
    last_modified: Instant
    """When it last changed."""
    credit_party: TransferParty
    """The payee."""
    debit_party: TransferParty
    """The payer."""
    end_to_end_id: Annotated[str, Meta(examples=["E99999003202611201234a1B2c3D4e5F"])]
    """Its name on the whole network. It finds the transfer for good, also where the network makes another one later, which is
    shown from then on."""
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    impact_type: Literal["IN", "OUT"]
    """IN credits you, OUT debits you."""
    status: TransferStatus
    """PROCESSING until the rail has answered, then CONFIRMED or ERROR; CANCELLED if it never left; RETURNED when all of it
    came back."""
    transaction_identification: Annotated[str, Meta(min_length=1, max_length=35)] | None = None
    """The txid of the QR code, if there was one."""


class TransferOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a transfer, and its reason."""

    status: TransferStatus
    """The transfer's status."""
    code: Annotated[str, Meta(examples=["AC03"])] | None = None
    """Why it failed, if it did: the rail's code, or the service's."""
    reason: str | None = None
    """The same as a sentence."""


class TransferListQuery(ListQuery, frozen=True, kw_only=True):
    """Which transfers."""

    # The contract has no filter for ERROR: such a transfer is found by its id.
    status: Literal["CONFIRMED", "PROCESSING", "CANCELLED", "RETURNED"] = "CONFIRMED"
    """Only transfers of this status."""


class TransferSearchQuery(ListQuery, frozen=True, kw_only=True):
    """Filters of transfers; all of those that you give must hold."""

    status: TransferStatus | None = None
    """Only transfers of this status."""
    direction: Direction | None = None
    """Only those that credited you (IN) or debited you (OUT)."""
    external_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """Your own name for it."""
    end_to_end_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    """Its name on the whole network."""
    key: Annotated[str, Meta(min_length=1, max_length=77)] | None = None
    """The payee's Pix key: of an incoming one yours. With its mask or without."""
    txid: Annotated[str, Meta(min_length=1, max_length=35)] | None = None
    """Its `transaction_identification`."""
    amount: Annotated[int, Meta(ge=AMOUNT_MIN_CENTS, le=AMOUNT_MAX_CENTS)] | None = None
    """Exactly this amount. Cents. For a day use `initial_date` and `final_date`."""
    tax_id: Annotated[str, Meta(min_length=11, max_length=18)] | None = None
    """The counterparty's CPF or CNPJ, with or without punctuation.

    Matches only counterparties that the network reports unmasked.
    """
    end_to_end_id_part: Annotated[str, Meta(min_length=4, max_length=32)] | None = None
    """A part of its `end_to_end_id`, in capitals or not."""


async def initiate_pix_with_key(services: Services, request: Request[None, Nothing, InitiatePixWithKeyRequest]) -> Transfer:
    """Send a Pix to a key.

    The money is reserved at once; the transfer is PROCESSING until the rail has settled it. The same request again (same
    `external_id`, same contents) returns the same transfer in its present state and never sends twice.
    """
    named = request.headers.get(PAYEE_HEADER)
    terms = transfers.NO_TERMS
    if named is not None:
        # No digit of a tax id is lost here: non-ASCII text is no tax id.
        payee_tax_id = _read_tax_id(named.decode("ascii", "replace").strip(), PAYEE_HEADER_NAME)
        terms = transfers.SendingTerms(payee_tax_id=payee_tax_id)
    return _show(await transfer_usecases.start_transfer(services.context, request.caller, request.body, terms))


async def initiate_pix_with_account_details(
    services: Services, request: Request[None, Nothing, InitiatePixWithAccountDetailsRequest]
) -> Transfer:
    """Send a Pix to an account.

    As to a key. Only the form of another institution's account is checked here; whether it exists, that institution
    decides.
    """
    return _show(await transfer_usecases.start_transfer(services.context, request.caller, request.body))


async def initiate_pix_with_qrcode(
    services: Services, request: Request[None, Nothing, InitiatePixWithQRCodeRequest]
) -> Transfer:
    """Send a Pix by QR code.

    Static and dynamic codes, of this service and of others. A code that carries an amount must be paid with that amount.
    """
    return _show(await transfer_usecases.start_transfer(services.context, request.caller, request.body))


async def get_transfer_by_id(services: Services, request: Request[int, Nothing, Nothing]) -> Transfer:
    """Read a transfer by its id."""
    return _show(await transfer_usecases.read_transfer_by_id(services.context, request.caller, request.parameter))


async def get_transfer_by_external_id(services: Services, request: Request[str, Nothing, Nothing]) -> Transfer:
    """Read a transfer by your own id."""
    view = await transfer_usecases.read_transfer_by_external_id(services.context, request.caller, request.parameter)
    return _show(view)


async def get_transfer_by_end_to_end_id(services: Services, request: Request[str, Nothing, Nothing]) -> Transfer:
    """Read a transfer by its end-to-end id.

    For a transfer between two holders of this service, the answer is your own side.
    """
    view = await transfer_usecases.read_transfer_by_end_to_end_id(services.context, request.caller, request.parameter)
    return _show(view)


async def get_transfer_outcome(services: Services, request: Request[int, Nothing, Nothing]) -> TransferOutcome:
    """Read the outcome of a transfer.

    Contains the reason for ERROR or CANCELLED.
    """
    view = await transfer_usecases.read_transfer_by_id(services.context, request.caller, request.parameter)
    transfer = view.transfer
    return TransferOutcome(status=transfer.status, code=transfer.outcome_code, reason=transfer.outcome_reason)


async def list_transfers(services: Services, request: Request[None, TransferListQuery, Nothing]) -> Listing[Transfer]:
    """List your transfers.

    Incoming and outgoing, newest first. Without `status`, those that are CONFIRMED.
    """
    asked = paging.read_asked("transfers", request)
    page = await transfer_usecases.list_transfers(services.context, request.caller, request.query.status, asked.span)
    return asked.show(page, map(_show, page.items))


async def search_transfers(services: Services, request: Request[None, TransferSearchQuery, Nothing]) -> Listing[Transfer]:
    """Search your transfers.

    Transfers of every status, also ERROR, incoming and outgoing, newest first; without filters, all of them. By `direction`,
    `key`, `txid`, `amount`, `tax_id` or `end_to_end_id_part` the service checks at most 10000 transfers: if the period and
    `status` have more, the answer is BAD_REQUEST with their number.
    """
    query = request.query
    asked = paging.read_asked("transfers searched", request)
    search = TransferSearch(
        status=query.status,
        direction=query.direction,
        external_id=query.external_id,
        end_to_end_id=query.end_to_end_id,
        key=None if query.key is None else holder.as_kept(query.key),
        txid=query.txid,
        amount_cents=query.amount,
        tax_id=None if query.tax_id is None else _read_tax_id(query.tax_id),
        end_to_end_id_part=query.end_to_end_id_part,
    )
    page = await transfer_usecases.search_transfers(services.context, request.caller, search, asked.span)
    return asked.show(page, map(_show, page.items))


def _read_tax_id(text: str, field: str = "tax_id") -> str:
    found = tax_ids.unmask_tax_id(text)
    # The zeros of an unknown payer are no CPF either.
    if not (tax_ids.is_cpf(found) or tax_ids.is_cnpj(found)):
        raise errors.BadRequest(f"{field}: must be a CPF or a CNPJ with right check digits")
    return found


def show_party(party: Party) -> TransferParty:
    # Institutions report branches with a check digit and masks with points: whole at the operation for parties, cut here.
    return TransferParty(
        account_number=party.account_number[:_NUMBER_LENGTH_MAX],
        account_type=party.account_type,
        bank=party.bank,
        branch=party.branch[:_BRANCH_LENGTH_MAX],
        ispb=party.ispb,
        key=party.key,
        key_type=party.key_type,
        name=party.name[:_NAME_LENGTH_MAX],
        tax_id=party.tax_id[:_TAX_ID_LENGTH_MAX],
    )


def _show(view: TransferView) -> Transfer:
    transfer = view.transfer
    # A transfer between two of our holders is one name for two: the view has the caller's side.
    return Transfer(
        id=transfer.id,
        amount=transfer.amount_cents,
        create_timestamp=format_instant(transfer.created_at),
        last_modified=format_instant(transfer.modified_at),
        credit_party=show_party(view.credit_party),
        debit_party=show_party(view.debit_party),
        end_to_end_id=transfer.shown_id,
        external_id=transfer.external_id,
        impact_type=transfer.direction,
        status=transfer.status,
        transaction_identification=transfer.txid,
    )
