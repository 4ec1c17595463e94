"""Receipts: a page that prints well, and the same as PDF. They are in Portuguese in either language: payers get them."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.visit import Visit
from pixconnect.domain.reading.receipt import Receipt, ReceiptKind, lay_out_receipt, name_file
from pixconnect.foundation import outgoing_text
from pixconnect.foundation.receipt_pdf import write_receipt_pdf
from pixconnect.usecases.reading import receipt as receipt_usecases


async def show_transfer_receipt(visit: Visit) -> Response:
    return _show(visit, await _read(visit, "transfer"))


async def show_refund_receipt(visit: Visit) -> Response:
    return _show(visit, await _read(visit, "refund"))


async def save_transfer_receipt(visit: Visit) -> Response:
    return _save(await _read(visit, "transfer"))


async def save_refund_receipt(visit: Visit) -> Response:
    return _save(await _read(visit, "refund"))


async def _read(visit: Visit, kind: ReceiptKind) -> Receipt:
    return await receipt_usecases.read_receipt(visit.parts.context, visit.viewer, kind, visit.path_id())


def _show(visit: Visit, found: Receipt) -> Response:
    return visit.page("receipt.html", receipt=found, sheet=lay_out_receipt(found))


def _save(found: Receipt) -> Response:
    headers = {"content-disposition": outgoing_text.in_attachment(name_file(found))}
    return Response(write_receipt_pdf(lay_out_receipt(found)), media_type="application/pdf", headers=headers)


ROUTES: Final = (
    PageRoute(path="/transfers/{id}/receipt", page=show_transfer_receipt),
    PageRoute(path="/transfers/{id}/receipt.pdf", page=save_transfer_receipt, is_file=True),
    PageRoute(path="/refunds/{id}/receipt", page=show_refund_receipt),
    PageRoute(path="/refunds/{id}/receipt.pdf", page=save_refund_receipt, is_file=True),
)
