"""Payments: lists of charges, transfers and refunds, and each one with everything that happened to it in one line of time.

Receipts are a page that prints well, and the same as PDF; in Portuguese in either language, since payers get them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.forms import read_or_complain
from pixconnect.console.visit import Visit
from pixconnect.domain.due.day_amount import ShownAmount, show_amount
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.reading.receipt import Receipt, ReceiptKind, lay_out_receipt, name_file
from pixconnect.foundation import outgoing_text
from pixconnect.foundation.receipt_pdf import write_receipt_pdf
from pixconnect.usecases.reading import browse, infraction_page, origin, timeline
from pixconnect.usecases.reading import receipt as receipt_usecases

_PICTURES_MAX: Final = 128

Kind = Literal["charge", "transfer", "refund"]

_PATHS: Final = dict(charge="/v1/connect/charge/", transfer="/v1/connect/transfer/id/", refund="/v1/connect/refund/id/")
"""Where the API has each."""


async def list_charges(visit: Visit) -> Response:
    return await _list(visit, browse.CHARGES)


async def list_transfers(visit: Visit) -> Response:
    return await _list(visit, browse.TRANSFERS)


async def list_refunds(visit: Visit) -> Response:
    return await _list(visit, browse.REFUNDS)


async def _list(visit: Visit, kind: browse.Kind[browse.Listed]) -> Response:
    wanted, complaint = read_or_complain(visit, kind.statuses)
    status, page = 400, None
    if not complaint:
        status, page = 200, await browse.browse(visit.context, visit.viewer, kind, wanted, visit.query("after") or None)
    return visit.page(
        "payments.html",
        status=status,
        kind=kind.name,
        page=page,
        statuses=kind.statuses,
        wanted=wanted,
        complaint=complaint,
    )


async def show_charge(visit: Visit) -> Response:
    return await _show(visit, "charge")


async def show_transfer(visit: Visit) -> Response:
    return await _show(visit, "transfer")


async def show_refund(visit: Visit) -> Response:
    return await _show(visit, "refund")


async def _show(visit: Visit, kind: Kind) -> Response:
    resource_id = visit.path_id()
    story = await timeline.read_timeline(visit.context, visit.viewer, kind, resource_id)
    facts = story.facts
    subjects = {"charge": (facts.charge,), "transfer": facts.transfers, "refund": facts.refunds}[kind]
    subject = next(each for each in subjects if each is not None and each.id == resource_id)
    return visit.page(
        "payment.html",
        kind=kind,
        subject=subject,
        story=story,
        contests=await infraction_page.find_contests(visit.context, visit.viewer, facts.transfers),
        due=facts.charge and show_due(facts.charge, story.now),
        picture=_draw(visit.parts.draw_qr, facts.charge, story.now) if kind == "charge" and facts.charge else "",
        origin=await origin.find_shown(visit.context, kind, subject, is_operator=visit.who.kind != "holder"),
        curl=f'curl -s {visit.parts.api_url}{_PATHS[kind]}{resource_id} -H "Authorization: Bearer $TOKEN"',
        cli=f"pixconnect {kind} show {resource_id}",
    )


def _draw(draw_qr: Callable[[str], bytes], charge: Charge, now: datetime) -> str:
    """The code of a charge that can still be paid, as an address that holds the picture; empty of any other."""
    if charge.status != "PENDING" or now >= charge.expires_at or not charge.br_code:
        return ""
    return picture_of(draw_qr, charge.br_code)


@lru_cache(_PICTURES_MAX)
def picture_of(draw_qr: Callable[[str], bytes], br_code: str) -> str:
    """A QR code as an address; a page that is followed asks for the same one each time."""
    return f"data:image/png;base64,{base64.b64encode(draw_qr(br_code)).decode()}"


def show_due(charge: Charge, now: datetime) -> ShownAmount | None:
    """What one with a due date asks for today, and why; ``None`` of any other, and of one that nobody can pay any more."""
    if charge.contents is None or charge.contents.due is None or charge.status != "PENDING" or now >= charge.expires_at:
        return None
    return show_amount(charge.contents.due, charge.contents.amount_cents, to_day(now))


async def show_transfer_receipt(visit: Visit) -> Response:
    return _show_receipt(visit, await _read_receipt(visit, "transfer"))


async def show_refund_receipt(visit: Visit) -> Response:
    return _show_receipt(visit, await _read_receipt(visit, "refund"))


async def save_transfer_receipt(visit: Visit) -> Response:
    return _save_receipt(await _read_receipt(visit, "transfer"))


async def save_refund_receipt(visit: Visit) -> Response:
    return _save_receipt(await _read_receipt(visit, "refund"))


async def _read_receipt(visit: Visit, kind: ReceiptKind) -> Receipt:
    return await receipt_usecases.read_receipt(visit.context, visit.viewer, kind, visit.path_id())


def _show_receipt(visit: Visit, found: Receipt) -> Response:
    return visit.page("receipt.html", receipt=found, sheet=lay_out_receipt(found))


def _save_receipt(found: Receipt) -> Response:
    headers = {"content-disposition": outgoing_text.in_attachment(name_file(found))}
    return Response(write_receipt_pdf(lay_out_receipt(found)), media_type="application/pdf", headers=headers)


ROUTES: Final = (
    PageRoute(path="/charges", page=list_charges, may_be_old=True),
    PageRoute(path="/charges/{id}", page=show_charge),
    PageRoute(path="/transfers", page=list_transfers, may_be_old=True),
    PageRoute(path="/transfers/{id}", page=show_transfer),
    PageRoute(path="/refunds", page=list_refunds, may_be_old=True),
    PageRoute(path="/refunds/{id}", page=show_refund),
    PageRoute(path="/transfers/{id}/receipt", page=show_transfer_receipt),
    PageRoute(path="/transfers/{id}/receipt.pdf", page=save_transfer_receipt, is_file=True),
    PageRoute(path="/refunds/{id}/receipt", page=show_refund_receipt),
    PageRoute(path="/refunds/{id}/receipt.pdf", page=save_refund_receipt, is_file=True),
)
