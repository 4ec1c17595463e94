"""Receipts in the API: their facts, and the same as a PDF page."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pixconnect.doors.api.document import PDF_TYPE, Document
from pixconnect.doors.api.envelope import Amount, Cents, Id, Instant
from pixconnect.doors.api.operation import Nothing, Request, Section, Services
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import ID
from pixconnect.features.receipts import rules as receipts
from pixconnect.features.receipts import service as receipt_usecases
from pixconnect.features.receipts.pdf import write_receipt_pdf
from pixconnect.features.receipts.rules import CodeKind, ReceiptKind, ReceiptParty
from pixconnect.features.receipts.service import TransferParties, get_transfer_parties
from pixconnect.kernel.rules.access import Caller, Viewer
from pixconnect.platform.base.clock import format_instant


class Receipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receipt of a transfer or refund that has settled."""

    kind: ReceiptKind
    """Whether a Pix, or a return of one."""
    id: Id
    """The service's own name for the transfer or refund."""
    direction: Literal["IN", "OUT"]
    """IN credited you, OUT debited you."""
    amount: Amount
    """The amount paid or returned."""
    settled_at: Instant
    """When, by the network's clock where it is known."""
    payer: ReceiptParty
    """The payer, or for a refund the returning party."""
    payee: ReceiptParty
    """The payee."""
    end_to_end_id: Annotated[str, Meta(examples=["E99999003202611201234a1B2c3D4e5F"])] | None = None
    """The network's name of the Pix, of a refund that of the original; missing where the network does not know one."""
    return_identification: Annotated[str, Meta(examples=["D99999003202611201234a1B2c3D4e5F"])] | None = None
    """The network's name of a refund; missing as above."""
    transaction_identification: Annotated[str, Meta(min_length=1, max_length=35)] | None = None
    """The txid of the code that was paid, if it has one."""
    code_kind: CodeKind
    """How the payer found the account: by a dynamic or a static code, a key, or its branch and number."""
    amount_returned: Cents | None = None
    """Of a transfer: how much of it has been returned since, if any."""
    message: str | None = None
    """The message of the payer, or of the returning party."""
    is_book: bool
    """Settled within this service, without the network."""
    is_test: bool
    """No money has moved: a sandbox, or an installation of test environments."""


async def get_transfer_receipt(services: Services, request: Request[int, Nothing, Nothing]) -> Receipt:
    """Read a transfer's receipt.

    Only a settled transfer has one (else 404). It may be shown to anyone: a CPF is masked. It has the data for an invoice: the
    end-to-end id, the txid, the kind of code, and each side's institution as far as it is known.
    """
    return _show(await _read(services, request.caller, "transfer", request.parameter))


async def get_transfer_receipt_file(services: Services, request: Request[int, Nothing, Nothing]) -> Document:
    """Read a transfer's receipt as PDF.

    The same in Portuguese, as a page to print or to pass on: *Comprovante de Pix*.
    """
    return _write(await _read(services, request.caller, "transfer", request.parameter))


async def get_refund_receipt(services: Services, request: Request[int, Nothing, Nothing]) -> Receipt:
    """Read a refund's receipt.

    Of one that was returned; others have none (404).
    """
    return _show(await _read(services, request.caller, "refund", request.parameter))


async def get_refund_receipt_file(services: Services, request: Request[int, Nothing, Nothing]) -> Document:
    """Read a refund's receipt as PDF."""
    return _write(await _read(services, request.caller, "refund", request.parameter))


async def _read(services: Services, caller: Caller, kind: ReceiptKind, resource_id: int) -> receipts.Receipt:
    viewer = Viewer(holder_id=caller.holder_id, scopes=caller.scopes)
    return await receipt_usecases.read_receipt(services.context, viewer, kind, resource_id)


def _show(found: receipts.Receipt) -> Receipt:
    return Receipt(
        kind=found.kind,
        id=found.id,
        direction=found.direction,
        amount=found.amount_cents,
        settled_at=format_instant(found.settled_at),
        payer=found.payer,
        payee=found.payee,
        end_to_end_id=found.end_to_end_id,
        return_identification=found.return_id,
        transaction_identification=found.txid,
        code_kind=found.code_kind,
        amount_returned=found.returned_cents or None,
        message=found.message,
        is_book=found.is_book,
        is_test=found.is_test,
    )


def _write(found: receipts.Receipt) -> Document:
    return Document(
        content=write_receipt_pdf(receipts.lay_out_receipt(found)),
        media_type=PDF_TYPE,
        filename=receipts.name_file(found),
    )


# fmt: off
SECTIONS: Final = (
    Section(
        title="Transfers",
        operations=(
            Row("get_transfer_parties", "GET", "/v1/connect/transfer/id/{id}/parties", "transfer.read",
                ID, Nothing, Nothing, TransferParties, get_transfer_parties),
            Row("get_transfer_receipt", "GET", "/v1/connect/transfer/id/{id}/receipt", "transfer.read",
                ID, Nothing, Nothing, Receipt, get_transfer_receipt),
            Row("get_transfer_receipt_file", "GET", "/v1/connect/transfer/id/{id}/receipt.pdf", "transfer.read",
                ID, Nothing, Nothing, Document, get_transfer_receipt_file, media_types=(PDF_TYPE,)),
        ),
    ),
    Section(
        title="Refunds",
        operations=(
            Row("get_refund_receipt", "GET", "/v1/connect/refund/id/{id}/receipt", "refund.read",
                ID, Nothing, Nothing, Receipt, get_refund_receipt),
            Row("get_refund_receipt_file", "GET", "/v1/connect/refund/id/{id}/receipt.pdf", "refund.read",
                ID, Nothing, Nothing, Document, get_refund_receipt_file, media_types=(PDF_TYPE,)),
        ),
    ),
)
# fmt: on
