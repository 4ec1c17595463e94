"""Payments: lists of charges, transfers and refunds, each with its history."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, get_args

from msgspec import Struct, structs
from starlette.responses import Response

from pixconnect.doors.console import wanted
from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.filters import picture_of
from pixconnect.doors.console.forms import read_field, show_list
from pixconnect.doors.console.visit import Visit
from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.contests.service import infraction_page
from pixconnect.features.due_charges.service import show_due
from pixconnect.features.finding.rules import Facts, Timeline
from pixconnect.features.finding.service import browse, timeline
from pixconnect.kernel.flows import refund
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.refund import DESCRIPTION_LENGTH_MAX, Refund, RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

Kind = Literal["charge", "transfer", "refund"]

_PATHS: Final = dict(charge="/v1/connect/charge/", transfer="/v1/connect/transfer/id/", refund="/v1/connect/refund/id/")
"""The API's path of each."""


_MOVED: Final = {Charge: ("APPROVED", "RETURNED"), Transfer: ("CONFIRMED", "RETURNED"), Refund: ("RETURNED",)}
"""The states in which money has moved."""


async def list_payments(visit: Visit, kind: browse.Kind[Any]) -> Response:
    async def read(asked: Wanted, after: str | None) -> object:
        page = await browse.browse(visit.context, visit.viewer, kind, asked, after)
        if kind.name == "refund":
            refunded.update(await browse.find_refunded(visit.context, visit.viewer, page.items))
        paying = page.items if kind.name == "transfer" else list(refunded.values())
        names.update(await browse.name_charges(visit.context, visit.viewer, paying))
        if kind.name == "charge":
            pairs = [(each.id, each.holder_id) for each in page.items]
            payments.update(await browse.find_payments(visit.context, visit.viewer, pairs))
        named = [(kind.name, each.id, each.holder_id) for each in page.items]
        marks.update(structs.asdict(await browse.read_marks(visit.context, visit.viewer, named)))
        totals.update(_sum_up(page.items, {one[1]: cents for one, cents in marks["returned"].items()}, asked))
        return page

    names, refunded, payments = dict[int, str](), dict[int, Transfer](), dict[int, Transfer]()
    marks, totals = dict[str, Any](), dict[str, int]()
    shown = dict[str, Any](kind=kind.name, charge_names=names, refunded=refunded, payments=payments, marks=marks, totals=totals)
    return await show_list(visit, "payments.html", read, statuses=kind.statuses, **shown)


def _sum_up(listed: Iterable[Charge | Transfer | Refund], returned: Mapping[str, int], asked: Wanted) -> dict[str, int]:
    """What came in and went out by a list's rows, in cents, and what of it was returned.

    A Pix that was held or under way over midnight is listed on both days, and summed on that of its settlement.
    """
    totals: dict[str, int] = dict.fromkeys(("in", "returned", "out", "back", "elsewhen"), 0)
    for each in listed:
        if each.status not in _MOVED[type(each)]:
            continue
        settled_at = None if isinstance(each, Charge) else each.network_settled_at or each.settled_at
        if settled_at and not (asked.initial_at or settled_at) <= settled_at <= (asked.final_at or settled_at):
            totals["elsewhen"] += each.amount_cents
            continue
        direction = "IN" if isinstance(each, Charge) else each.direction if isinstance(each, Transfer) else each.flow
        totals["in" if direction == "IN" else "out"] += each.amount_cents
        totals["returned" if direction == "IN" else "back"] += returned.get(str(each.id), 0)
    return totals


async def show_payment(visit: Visit, kind: Kind) -> Response:
    resource_id = visit.path_id()
    story = await timeline.read_timeline(visit.context, visit.viewer, kind, resource_id)
    facts = story.facts
    subjects = {"charge": (facts.charge,), "transfer": facts.transfers, "refund": facts.refunds}[kind]
    subject = next(each for each in subjects if each is not None and each.id == resource_id)
    payment = _find_payment(facts, subject)
    contests = await infraction_page.find_contests(visit.context, visit.viewer, facts.transfers)
    about = None if payment is None or kind == "refund" or payment.direction == "OUT" else payment
    own = [each for each in contests if about and each.transfer_id == about.id]
    contest = next((each for each in own if each.is_open), None)
    claim = await infraction_page.find_claim(visit.context, own)
    return visit.page(
        "payment.html",
        kind=kind,
        subject=subject,
        story=story,
        payment=payment,
        contest=contest,
        claim=claim,
        refund=None if contest or claim else _find_refundable(visit, story, about),
        charge_names={facts.charge.id: facts.charge.external_id} if facts.charge else {},
        contests=contests,
        due=facts.charge and show_due(facts.charge, story.now),
        picture=_draw(visit.parts.draw_qr, facts.charge, story.now) if kind == "charge" and facts.charge else "",
        origin=await timeline.find_shown(visit.context, kind, subject, is_operator=visit.who.kind != "holder"),
        curl=f'curl -s {visit.parts.api_url}{_PATHS[kind]}{resource_id} -H "Authorization: Bearer $TOKEN"',
        cli=f"pixconnect {kind} show {resource_id}",
    )


EARLIER_SHOWN_MAX: Final = 5


class Refundable(Struct, frozen=True, kw_only=True):
    left_cents: int
    number: int  # of the next refund of the payment: a form sent twice makes one, and none once another was made
    earlier: Sequence[Refund]  # the newest ones of the same payment


def _find_payment(facts: Facts, subject: Charge | Transfer | Refund) -> Transfer | None:
    """The transfer that a page is about: the one that paid the charge, or that the refund returns."""
    if isinstance(subject, Transfer):
        return subject
    if isinstance(subject, Charge):
        return next((each for each in facts.transfers if each.charge_id == subject.id and each.settled_at), None)
    return next((each for each in facts.transfers if each.id == subject.transfer_id), None)


def _find_refundable(visit: Visit, story: Timeline, payment: Transfer | None) -> Refundable | None:
    if payment is None or not (visit.who.may_act and visit.viewer.may("refund.write")):
        return None
    left_cents = payment.amount_cents - payment.returned_cents - payment.returning_cents
    if payment.status != "CONFIRMED" or left_cents < 1:
        return None
    made = _list_made(story.facts, payment)
    earlier = [each for each in made if each.status != "ERROR"][-EARLIER_SHOWN_MAX:]
    return Refundable(left_cents=left_cents, number=len(made) + 1, earlier=earlier)


def _list_made(facts: Facts, payment: Transfer) -> list[Refund]:
    return [each for each in facts.refunds if each.transfer_id == payment.id]


async def make_refund(visit: Visit) -> Response:
    """Refund a received payment: a number that its page has shown makes one refund, and none once another was made."""
    form = visit.form()
    visit.viewer.require("refund.write")
    found = await timeline.read_timeline(visit.context, visit.viewer, "transfer", visit.path_id())
    payment = next(each for each in found.facts.transfers if each.id == visit.path_id())
    amount_cents = wanted.read_one_amount("amount", read_field(form, "amount"))
    number, description = wanted.read_id(read_field(form, "number")), read_field(form, "description").strip() or None
    if number is None:
        raise errors.BadRequest("number: is no number")
    if description is not None and len(description) > DESCRIPTION_LENGTH_MAX:
        raise errors.BadRequest(f"description: must have at most {DESCRIPTION_LENGTH_MAX} characters")
    made, external_id = _list_made(found.facts, payment), f"console-{payment.id}-{number}"
    if number != len(made) + 1 and external_id not in {each.external_id for each in made}:
        raise errors.ExternalIdConflict("number: another refund of the payment was made since this form was shown")
    visit = visit.about(payment.holder_id)
    caller, act = visit.act("refund create", f"transfer {payment.id}", {"amount": amount_cents})
    request = RefundRequest(
        end_to_end_id=payment.end_to_end_id, amount_cents=amount_cents, external_id=external_id, description=description
    )
    new = await visit.do_and_note(act, refund.start_refund(visit.context, caller, request))
    return visit.go(f"/refunds/{new.id}", notice="refunded")


def _draw(draw_qr: Callable[[str], bytes], charge: Charge, now: datetime) -> str:
    """Draw the code of a charge that can still be paid, as a data URL; empty for any other."""
    if charge.status != "PENDING" or charge.held_by or now >= charge.expires_at or not charge.br_code:
        return ""
    return picture_of(draw_qr, charge.br_code)


_LISTED: Final = dict(charge=browse.CHARGES, transfer=browse.TRANSFERS, refund=browse.REFUNDS)

ROUTES: Final = (
    *(
        PageRoute(path=f"/{kind}s", page=partial(list_payments, kind=listed), may_be_old=True)
        for kind, listed in _LISTED.items()
    ),
    *(PageRoute(path=f"/{kind}s/{{id}}", page=partial(show_payment, kind=kind)) for kind in get_args(Kind)),
    PageRoute(path="/transfers/{id}/refund", page=make_refund, method="POST"),
)
