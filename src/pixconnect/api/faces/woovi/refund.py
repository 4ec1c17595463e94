"""Refunds as Woovi has them: named by the caller's correlationID, in parts, of a charge or of any Pix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pixconnect.api.faces.frame import Face, Shown
from pixconnect.api.faces.woovi.charge import CorrelationId, Value, find_named_charge
from pixconnect.api.faces.woovi.paging import NAME, read_name, read_slice
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.money.charge import PAID
from pixconnect.domain.money.refund import DESCRIPTION_LENGTH_MAX, Refund, RefundRequest, RefundStatus
from pixconnect.domain.money.transfer import Transfer
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import refund as refund_usecases
from pixconnect.usecases.standard import pix as pix_usecases
from pixconnect.usecases.standard.cents_records import show_cents_refund

_END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")
_REFUND_ID: Final = re.compile(r"[0-9a-f]{32}")
_ID_MAX: Final = 2**63 - 1
_OF_CHARGE: Final = dict[RefundStatus, str](
    [("PROCESSING", "IN_PROCESSING"), ("RETURNED", "CONFIRMED"), ("ERROR", "REJECTED")]
)
"""A charge's refunds have other words for the same."""


class EstornoDaCobranca(Struct, frozen=True, kw_only=True, rename="camel"):
    correlation_id: CorrelationId = field(name="correlationID")
    value: Value | None = None
    comment: Annotated[str, Meta(max_length=DESCRIPTION_LENGTH_MAX)] | None = None


class EstornoPedido(EstornoDaCobranca, frozen=True, kw_only=True, rename="camel"):
    end_to_end_id: Annotated[str, Meta(max_length=32)] = field(name="transactionEndToEndId")


async def refund_charge(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    if charge.status not in PAID:
        raise errors.OriginalNotRefundable("id: the charge was not paid")
    paying = await charge_usecases.read_paying_transfer(services.context, request.caller, charge.id)
    body = request.body.under(EstornoDaCobranca, "refund", "")
    refund = await _start(face, services, request, body, paying)
    return {"refund": show_cents_refund(refund, _OF_CHARGE)}


async def refund_pix(face: Face, services: Services, request: Asked) -> Shown:
    body = request.body.under(EstornoPedido, "refund", "")
    name = body.text("transactionEndToEndId", pattern=_END_TO_END_ID)
    body.raise_if_any()
    received = await pix_usecases.find_received(services.context, request.caller, name or "")
    return {"refund": show_cents_refund(await _start(face, services, request, body, received))}


async def _start(face: Face, services: Services, request: Asked, body: Members, received: Transfer) -> Refund:
    name = body.text("correlationID", pattern=NAME)
    value, comment = body.integer("value", is_number=True), body.text("comment")
    body.raise_if_any()
    context, caller = services.context, request.caller
    try:
        known = await refund_usecases.read_refund_by_external_id(context, caller, name or "")
    except errors.NotFound:
        known = None
    if known is not None and face.choose(services, "repeated_refund") == "refused":
        raise errors.ExternalIdConflict("correlationID: was already used for a refund")
    # Without a value it is the rest; of one that comes again, what it was then.
    rest = received.amount_cents - received.returned_cents - received.returning_cents
    left = rest if known is None else known.amount_cents
    asked = RefundRequest(
        end_to_end_id=received.end_to_end_id, amount_cents=value or left, external_id=name, description=comment or None
    )
    if not asked.amount_cents:
        raise errors.OriginalNotRefundable("value: nothing is left to return")
    return await refund_usecases.start_refund(context, caller, asked)


async def get_named_refund(face: Face, services: Services, request: Asked) -> Shown:
    name = read_name(request)
    context, caller = services.context, request.caller
    try:
        found = await refund_usecases.read_refund_by_external_id(context, caller, name)
    except errors.NotFound:
        # What is beyond the largest number names nothing, and the database would refuse it.
        is_id = _REFUND_ID.fullmatch(name) and int(name, 16) <= _ID_MAX
        if not is_id or face.choose(services, "refund_by_id") == "absent":
            raise
        found = await refund_usecases.read_refund_by_id(context, caller, int(name, 16))
    request.query.refuse_hidden(found.created_at)
    return {"pixTransactionRefund": show_cents_refund(found)}


async def list_charge_refunds(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    found: Sequence[Refund] = ()
    if charge.status in PAID:
        paying = await charge_usecases.read_paying_transfer(services.context, request.caller, charge.id)
        found = await pix_usecases.list_refunds_of_pix(services.context, paying)
    shown = [refund for refund in found if not request.query.hides(refund.created_at)]
    return {"refunds": [show_cents_refund(refund, _OF_CHARGE) for refund in shown]}


async def list_refunds(face: Face, services: Services, request: Asked) -> Shown:
    violations = Violations("refund")
    asked = read_slice(violations, request)
    violations.raise_if_any()
    found, page = await asked.read(
        lambda span: refund_usecases.list_refunds(services.context, request.caller, None, span)
    )
    return {"pageInfo": page, "refunds": [show_cents_refund(refund) for refund in found]}
