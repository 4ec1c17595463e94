"""Payments: lists of charges, transfers and refunds, and each one with everything that happened to it in one line of time."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, get_args

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.filtering import read_wanted
from pixconnect.console.visit import Visit
from pixconnect.domain.due.day_amount import ShownAmount, show_amount
from pixconnect.domain.institutions.statement_file import to_day
from pixconnect.domain.money.charge import Charge, ChargeStatus
from pixconnect.domain.money.refund import RefundStatus
from pixconnect.domain.money.transfer import TransferStatus
from pixconnect.usecases.reading import browse, origin, timeline

Kind = Literal["charge", "transfer", "refund"]

# The type is made of two.
CHARGE_STATUSES: Final[tuple[str, ...]] = tuple(word for part in get_args(ChargeStatus) for word in get_args(part))
TRANSFER_STATUSES: Final[tuple[str, ...]] = get_args(TransferStatus)
REFUND_STATUSES: Final[tuple[str, ...]] = get_args(RefundStatus)

_PATHS: Final = dict(charge="/v1/connect/charge/", transfer="/v1/connect/transfer/id/", refund="/v1/connect/refund/id/")
"""Where the API has each."""


async def list_charges(visit: Visit) -> Response:
    wanted = read_wanted(visit, CHARGE_STATUSES)
    page = await browse.browse_charges(visit.parts.context, visit.viewer, wanted, visit.query("after") or None)
    return visit.page("payments.html", kind="charge", page=page, statuses=CHARGE_STATUSES, wanted=wanted)


async def list_transfers(visit: Visit) -> Response:
    wanted = read_wanted(visit, TRANSFER_STATUSES)
    page = await browse.browse_transfers(visit.parts.context, visit.viewer, wanted, visit.query("after") or None)
    return visit.page("payments.html", kind="transfer", page=page, statuses=TRANSFER_STATUSES, wanted=wanted)


async def list_refunds(visit: Visit) -> Response:
    wanted = read_wanted(visit, REFUND_STATUSES)
    page = await browse.browse_refunds(visit.parts.context, visit.viewer, wanted, visit.query("after") or None)
    return visit.page("payments.html", kind="refund", page=page, statuses=REFUND_STATUSES, wanted=wanted)


async def show_charge(visit: Visit) -> Response:
    return await _show(visit, "charge")


async def show_transfer(visit: Visit) -> Response:
    return await _show(visit, "transfer")


async def show_refund(visit: Visit) -> Response:
    return await _show(visit, "refund")


async def _show(visit: Visit, kind: Kind) -> Response:
    resource_id = visit.path_id()
    story = await timeline.read_timeline(visit.parts.context, visit.viewer, kind, resource_id)
    facts = story.facts
    subjects = {"charge": (facts.charge,), "transfer": facts.transfers, "refund": facts.refunds}[kind]
    subject = next(each for each in subjects if each is not None and each.id == resource_id)
    return visit.page(
        "payment.html",
        kind=kind,
        subject=subject,
        story=story,
        due=facts.charge and show_due(facts.charge, story.now),
        origin=await origin.find_shown(visit.parts.context, kind, subject, is_operator=visit.who.kind != "holder"),
        curl=f'curl -s {visit.parts.api_url}{_PATHS[kind]}{resource_id} -H "Authorization: Bearer $TOKEN"',
        cli=f"pixconnect {kind} show {resource_id}",
    )


def show_due(charge: Charge, now: datetime) -> ShownAmount | None:
    """What one with a due date asks for today, and why; ``None`` of any other, and of one that nobody can pay any more."""
    if charge.contents is None or charge.contents.due is None or charge.status != "PENDING" or now >= charge.expires_at:
        return None
    return show_amount(charge.contents.due, charge.contents.amount_cents, to_day(now))


ROUTES: Final = (
    PageRoute(path="/charges", page=list_charges),
    PageRoute(path="/charges/{id}", page=show_charge),
    PageRoute(path="/transfers", page=list_transfers),
    PageRoute(path="/transfers/{id}", page=show_transfer),
    PageRoute(path="/refunds", page=list_refunds),
    PageRoute(path="/refunds/{id}", page=show_refund),
)
