"""Receipts: a printable page, and the same as PDF; in Portuguese in either language, since payers get them."""

from functools import partial
from typing import Final

from starlette.responses import Response

from pixconnect.doors.api.document import PDF_TYPE
from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.visit import Visit
from pixconnect.features.receipts import service as receipt_usecases
from pixconnect.features.receipts.api import write_receipt_pdf
from pixconnect.features.receipts.rules import Receipt, ReceiptKind, lay_out_receipt, name_file
from pixconnect.platform import outgoing_text

_KINDS: Final[tuple[ReceiptKind, ...]] = ("transfer", "refund")


async def _show_receipt(visit: Visit, kind: ReceiptKind) -> Response:
    found = await _read_receipt(visit, kind)
    return visit.page("receipt.html", receipt=found, sheet=lay_out_receipt(found))


async def _save_receipt(visit: Visit, kind: ReceiptKind) -> Response:
    found = await _read_receipt(visit, kind)
    headers = {"content-disposition": outgoing_text.in_attachment(name_file(found))}
    return Response(write_receipt_pdf(lay_out_receipt(found)), media_type=PDF_TYPE, headers=headers)


async def _read_receipt(visit: Visit, kind: ReceiptKind) -> Receipt:
    return await receipt_usecases.read_receipt(visit.context, visit.viewer, kind, visit.path_id())


ROUTES: Final = (
    *(PageRoute(path=f"/{kind}s/{{id}}/receipt", page=partial(_show_receipt, kind=kind)) for kind in _KINDS),
    *(PageRoute(path=f"/{kind}s/{{id}}/receipt.pdf", page=partial(_save_receipt, kind=kind), is_file=True) for kind in _KINDS),
)
