"""Payments: lists of charges, transfers and refunds, each one with all that happened to it; and what payers contest.

Receipts are a page that prints well, and the same as PDF; in Portuguese in either language, since payers get them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, Literal, get_args

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.forms import read_field, show_list
from pixconnect.console.visit import Visit
from pixconnect.domain.due.day_amount import ShownAmount, show_amount
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.frame.wanted import Wanted
from pixconnect.domain.money.block_report import BLOCK_KINDS
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.reading.receipt import Receipt, ReceiptKind, lay_out_receipt, name_file
from pixconnect.foundation import outgoing_text
from pixconnect.foundation.receipt_pdf import write_receipt_pdf
from pixconnect.usecases.institutions import defence
from pixconnect.usecases.reading import browse, infraction_page, search, timeline
from pixconnect.usecases.reading import receipt as receipt_usecases
from pixconnect.usecases.reading.infraction_page import STATES

_PICTURES_MAX: Final = 128

Kind = Literal["charge", "transfer", "refund"]

_PATHS: Final = dict(charge="/v1/connect/charge/", transfer="/v1/connect/transfer/id/", refund="/v1/connect/refund/id/")
"""Where the API has each."""


async def list_payments(visit: Visit, kind: browse.Kind[Any]) -> Response:
    async def read(wanted: Wanted, after: str | None) -> object:
        return await browse.browse(visit.context, visit.viewer, kind, wanted, after)

    return await show_list(visit, "payments.html", read, statuses=kind.statuses, kind=kind.name)


async def show_payment(visit: Visit, kind: Kind) -> Response:
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
        origin=await search.find_shown(visit.context, kind, subject, is_operator=visit.who.kind != "holder"),
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
    """Today's amount of one with a due date, and its parts; ``None`` for others, and for one that can no longer be paid."""
    if charge.contents is None or charge.contents.due is None or charge.status != "PENDING" or now >= charge.expires_at:
        return None
    return show_amount(charge.contents.due, charge.contents.amount_cents, to_day(now))


async def _show_receipt(visit: Visit, kind: ReceiptKind) -> Response:
    found = await _read_receipt(visit, kind)
    return visit.page("receipt.html", receipt=found, sheet=lay_out_receipt(found))


async def _save_receipt(visit: Visit, kind: ReceiptKind) -> Response:
    found = await _read_receipt(visit, kind)
    headers = {"content-disposition": outgoing_text.in_attachment(name_file(found))}
    return Response(write_receipt_pdf(lay_out_receipt(found)), media_type="application/pdf", headers=headers)


async def _read_receipt(visit: Visit, kind: ReceiptKind) -> Receipt:
    return await receipt_usecases.read_receipt(visit.context, visit.viewer, kind, visit.path_id())


_LISTED: Final = dict(charge=browse.CHARGES, transfer=browse.TRANSFERS, refund=browse.REFUNDS)
_WITH_RECEIPT: Final[tuple[ReceiptKind, ...]] = ("transfer", "refund")

ROUTES: Final = (
    *(
        PageRoute(path=f"/{kind}s", page=partial(list_payments, kind=listed), may_be_old=True)
        for kind, listed in _LISTED.items()
    ),
    *(PageRoute(path=f"/{kind}s/{{id}}", page=partial(show_payment, kind=kind)) for kind in get_args(Kind)),
    *(PageRoute(path=f"/{kind}s/{{id}}/receipt", page=partial(_show_receipt, kind=kind)) for kind in _WITH_RECEIPT),
    *(
        PageRoute(path=f"/{kind}s/{{id}}/receipt.pdf", page=partial(_save_receipt, kind=kind), is_file=True)
        for kind in _WITH_RECEIPT
    ),
)


async def list_infractions(visit: Visit) -> Response:
    async def read(wanted: Wanted, after: str | None) -> object:
        return await infraction_page.browse_infractions(visit.context, visit.viewer, wanted, after)

    return await show_list(visit, "infractions.html", read, statuses=STATES, now=visit.context.clock.now())


async def defend_infraction(visit: Visit) -> Response:
    visit.form()
    visit.viewer.require("infraction.write")
    shown = await infraction_page.read_infraction_page(visit.context, visit.viewer, visit.path_id())
    visit, contested = visit.about(shown.infraction.holder_id), shown.infraction
    text = _read_text(visit)
    # The words stand with the infraction, and end as those do: the audit is for ever.
    caller, act = visit.act("infraction defend", f"infraction {contested.id}", {"characters": len(text)})
    await defence.defend(visit.acting, caller, contested.id, text, act)
    return visit.go(f"/infractions/{contested.id}", said="defended")


async def refuse_defence(visit: Visit, refusal: errors.PixConnectError, status: int) -> Response:
    return await show_infraction(visit, status=status, complaint=str(refusal), typed=_read_text(visit))


def _read_text(visit: Visit) -> str:
    # A browser ends each line of a form with two characters; the institution counts one.
    return read_field(visit.sent, "text").replace("\r\n", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")


async def show_infraction(
    visit: Visit, *, status: int = 200, complaint: str = "", typed: str | None = None
) -> Response:
    shown = await infraction_page.read_infraction_page(visit.context, visit.viewer, visit.path_id())
    contested = shown.infraction
    return visit.page(
        "infraction.html",
        status=status,
        shown=shown,
        contested=contested,
        complaint=complaint,
        typed=typed,
        may_answer=visit.who.may_act and visit.viewer.may("infraction.write"),
        curl=f'curl -s {visit.parts.api_url}/v1/connect/infraction/id/{contested.id} -H "Authorization: Bearer $TOKEN"',
        cli=f"pixconnect infraction show {contested.id}",
    )


async def list_blocks(visit: Visit) -> Response:
    """Blocks at institutions, and their reasons: for operators, and holders are not warned."""
    visit.refuse_holders("these pages are for operators")
    kinds = tuple(kind for kind in BLOCK_KINDS if kind in visit.request.query_params.getlist("kind"))
    page = await infraction_page.browse_blocks(visit.context, visit.holder_id, kinds, visit.query("after") or None)
    return visit.page("blocks.html", page=page, kinds=BLOCK_KINDS, chosen=kinds)


INFRACTION_ROUTES: Final = (
    PageRoute(path="/infractions", page=list_infractions, may_be_old=True),
    PageRoute(path="/infractions/{id}", page=show_infraction),
    PageRoute(path="/infractions/{id}/defend", page=defend_infraction, method="POST", refused=refuse_defence),
    PageRoute(path="/blocks", page=list_blocks, may_be_old=True),
)
