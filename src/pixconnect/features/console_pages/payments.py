"""Payments: lists of charges, transfers and refunds, each with its history."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, Literal, get_args

from starlette.responses import Response

from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.forms import show_list
from pixconnect.doors.console.visit import Visit
from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.contests.service import infraction_page
from pixconnect.features.due_charges.rules.day_amount import ShownAmount, show_amount
from pixconnect.features.finding.service import browse, search, timeline
from pixconnect.kernel.rules.charge import Charge
from pixconnect.platform.base.clock import to_day

_PICTURES_MAX: Final = 128

Kind = Literal["charge", "transfer", "refund"]

_PATHS: Final = dict(charge="/v1/connect/charge/", transfer="/v1/connect/transfer/id/", refund="/v1/connect/refund/id/")
"""The API's path of each."""


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
    """Draw the code of a charge that can still be paid, as a data URL; empty for any other."""
    if charge.status != "PENDING" or now >= charge.expires_at or not charge.br_code:
        return ""
    return picture_of(draw_qr, charge.br_code)


@lru_cache(_PICTURES_MAX)
def picture_of(draw_qr: Callable[[str], bytes], br_code: str) -> str:
    """Return a QR code as a URL; a page that is followed requests the same one each time."""
    return f"data:image/png;base64,{base64.b64encode(draw_qr(br_code)).decode()}"


def show_due(charge: Charge, now: datetime) -> ShownAmount | None:
    """Today's amount of one with a due date, and its parts; ``None`` for others, and for one that can no longer be paid."""
    if charge.contents is None or charge.contents.due is None or charge.status != "PENDING" or now >= charge.expires_at:
        return None
    return show_amount(charge.contents.due, charge.contents.amount_cents, to_day(now))


_LISTED: Final = dict(charge=browse.CHARGES, transfer=browse.TRANSFERS, refund=browse.REFUNDS)

ROUTES: Final = (
    *(
        PageRoute(path=f"/{kind}s", page=partial(list_payments, kind=listed), may_be_old=True)
        for kind, listed in _LISTED.items()
    ),
    *(PageRoute(path=f"/{kind}s/{{id}}", page=partial(show_payment, kind=kind)) for kind in get_args(Kind)),
)
