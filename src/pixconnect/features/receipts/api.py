"""Receipts in the API: their facts, and the same as a PDF.

The PDF has one page of A4 in Helvetica, which every reader has, so that no font is embedded. pydyf makes the file's objects and
their table; this module positions texts. The same receipt gives the same octets.
"""

import io
from collections.abc import Iterator
from textwrap import wrap
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from pixconnect.doors.api.document import PDF_TYPE, Document
from pixconnect.doors.api.envelope import Amount, Cents, Id, Instant
from pixconnect.doors.api.operation import Nothing, Request, Section, Services
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import ID
from pixconnect.features.receipts import rules as receipts
from pixconnect.features.receipts import service as receipt_usecases
from pixconnect.features.receipts.rules import CodeKind, ReceiptKind, ReceiptParty, ReceiptSheet
from pixconnect.features.receipts.service import TransferParties, get_transfer_parties
from pixconnect.kernel.rules.access import Caller, Viewer
from pixconnect.platform import outgoing_text
from pixconnect.platform.base.clock import format_instant

_A4: Final = (0, 0, 595, 842)
_MARGIN: Final = 56
_TEXTS_AT: Final = 190
_LINE_HEIGHT: Final = 12
_CHARACTERS_MAX: Final = 40  # maximum in a line of ten points: even with the widest letters it stays on the page
_FONTS: Final = dict(F1="/Helvetica", F2="/Helvetica-Bold")

Placed = tuple[str, int, int, int, str]  # a font, its size, its position from the left and from the bottom, and the text


def write_receipt_pdf(sheet: ReceiptSheet) -> bytes:
    import pydyf  # pyright: ignore[reportMissingTypeStubs]  # noqa: PLC0415  few processes are ever asked for one

    document: Any = pydyf.PDF()
    document.info = pydyf.Dictionary(dict(Title=_hex(sheet.title)))
    # So that screen readers pronounce it correctly.
    document.catalog["Lang"] = "(pt-BR)"
    fonts: dict[str, Any] = {}
    for name, base in _FONTS.items():
        font: Any = pydyf.Dictionary(dict(Type="/Font", Subtype="/Type1", BaseFont=base, Encoding="/WinAnsiEncoding"))
        document.add_object(font)
        fonts[name] = font.reference
    page: Any = pydyf.Stream()
    for font_name, size, left, height, text in _place(sheet):
        page.begin_text()
        page.set_font_size(font_name, size)
        page.set_text_matrix(1, 0, 0, 1, left, height)
        # As octets of the font's encoding: the library writes texts beyond ASCII as UTF-16, which no such font has.
        page.stream.append(_hex(text) + b" Tj")
        page.end_text()
    document.add_object(page)
    # A page names its resources; the fonts are the document's.
    resources: Any = pydyf.Dictionary(dict(Font=pydyf.Dictionary(fonts)))
    contents: Any = page.reference
    document.add_page(
        pydyf.Dictionary(
            dict(
                Type="/Page", Parent=document.pages.reference, MediaBox=pydyf.Array(_A4), Resources=resources, Contents=contents
            )
        )
    )
    file = io.BytesIO()
    document.write(file)
    return file.getvalue()


def _place(sheet: ReceiptSheet) -> Iterator[Placed]:
    # PDF counts from the bottom up.
    height = _A4[3] - 80
    yield "F2", 18, _MARGIN, height, sheet.title
    if sheet.notice:
        height -= 24
        yield "F2", 12, _MARGIN, height, sheet.notice
    for section in sheet.sections:
        height -= 16
        if section.heading:
            height -= 10
            yield "F2", 12, _MARGIN, height, section.heading
        for label, text in section.lines:
            for number, line in enumerate(wrap(outgoing_text.in_pdf(text), _CHARACTERS_MAX) or [""]):
                height -= _LINE_HEIGHT
                # A long text continues without a label.
                if number == 0:
                    yield "F1", 10, _MARGIN, height, label
                yield "F1", 10, _TEXTS_AT, height, line


def _hex(text: str) -> bytes:
    return b"<" + text.encode(outgoing_text.PDF_ENCODING, "replace").hex().encode() + b">"


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
    """Of a transfer: how much of it has been returned since."""
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
        amount_returned=found.returned_cents if found.kind == "transfer" else None,
        message=found.message,
        is_book=found.is_book,
        is_test=found.is_test,
    )


def _write(found: receipts.Receipt) -> Document:
    return Document(
        content=write_receipt_pdf(receipts.lay_out_receipt(found)), media_type=PDF_TYPE, filename=receipts.name_file(found)
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
