"""Refunds in the API."""

from typing import Annotated

from msgspec import Meta, Struct

from pixconnect.doors.api import paging
from pixconnect.doors.api.envelope import Amount, ExternalId, Id, Instant, Listing, ListQuery, clamp_cents
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules import refund as refunds
from pixconnect.kernel.rules.refund import Flow, RefundReason, RefundStatus
from pixconnect.platform.base.clock import format_instant


class CreateRefundRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A refund to be made."""

    end_to_end_id: str
    """Names a Pix that you received."""
    amount: Amount
    """The amount to return: all of it, or a part."""
    external_id: ExternalId | None = None
    reason: Annotated[RefundReason, Meta(extra_json_schema={"default": "MD06"})] | None = None
    """MD06 requested by the payer, BE08 error of the bank, FR01 fraud, SL02 a withdrawal or change went wrong."""
    description: Annotated[str, Meta(max_length=140)] | None = None
    """For the payer to read."""


class Refund(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A received Pix given back, wholly or in part."""

    id: Id
    """The service's own name for it."""
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    return_identification: Annotated[str, Meta(examples=["D99999003202611201234a1B2c3D4e5F"])]
    """Its name on the whole network. It finds the refund for good, also where the network makes another one later, which is
    shown from then on."""
    original_end_to_end_id: str
    """The Pix that is returned."""
    correlation_id: Annotated[str, Meta(extra_json_schema=dict(format="uuid"))]
    """Joins everything of one payment."""
    amount: Amount
    """The amount returned."""
    status: RefundStatus
    """PROCESSING until the rail has answered, then RETURNED or ERROR."""
    flow: Flow
    """OUT: you return a payment that you received. IN: a payment of yours is returned to you."""
    reason: RefundReason
    """Why it is returned."""
    description: str | None = None
    """For the payer to read."""
    create_timestamp: Instant
    """When it was accepted."""
    last_modified: Instant
    """When it last changed."""


class RefundOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a refund, and its reason."""

    status: RefundStatus
    """The refund's status."""
    code: Annotated[str, Meta(examples=["AC03"])] | None = None
    """Why it failed, if it did: the rail's code, or the service's."""
    reason: str | None = None
    """The same as a sentence."""


class RefundListQuery(ListQuery, frozen=True, kw_only=True):
    """Which refunds."""

    status: RefundStatus | None = None
    """Only refunds of this status."""


async def create_refund(services: Services, request: Request[None, Nothing, CreateRefundRequest]) -> Refund:
    """Return a received Pix.

    Several partial refunds may be made, within 90 days and never more than the original in sum. The same request again (same
    `external_id`, same contents) returns the same refund in its present state.
    """
    body = request.body
    wanted = refunds.RefundRequest(
        end_to_end_id=body.end_to_end_id,
        amount_cents=clamp_cents(body.amount),
        external_id=body.external_id,
        # Filled in before the fingerprint: the same request with the default spelled out is a replay.
        reason=body.reason or "MD06",
        description=body.description,
    )
    return _show(await refund_usecases.start_refund(services.context, request.caller, wanted))


async def get_refund_by_id(services: Services, request: Request[int, Nothing, Nothing]) -> Refund:
    """Read a refund by its id."""
    return _show(await refund_usecases.read_refund_by_id(services.context, request.caller, request.parameter))


async def get_refund_outcome(services: Services, request: Request[int, Nothing, Nothing]) -> RefundOutcome:
    """Read the outcome of a refund.

    Contains the reason for ERROR.
    """
    found = await refund_usecases.read_refund_by_id(services.context, request.caller, request.parameter)
    return RefundOutcome(status=found.status, code=found.outcome_code, reason=found.outcome_reason)


async def get_refund_by_external_id(services: Services, request: Request[str, Nothing, Nothing]) -> Refund:
    """Read a refund by your own id."""
    return _show(await refund_usecases.read_refund_by_external_id(services.context, request.caller, request.parameter))


async def get_refund_by_return_identification(services: Services, request: Request[str, Nothing, Nothing]) -> Refund:
    """Read a refund by its return identification."""
    return _show(await refund_usecases.read_refund_by_return_id(services.context, request.caller, request.parameter))


async def list_refunds(services: Services, request: Request[None, RefundListQuery, Nothing]) -> Listing[Refund]:
    """List your refunds.

    Both flows, newest first. Without `status`, all of them.
    """
    asked = paging.read_asked("refunds", request)
    page = await refund_usecases.list_refunds(services.context, request.caller, request.query.status, asked.span)
    return asked.show(page, map(_show, page.items))


def _show(refund: refunds.Refund) -> Refund:
    return Refund(
        id=refund.id,
        external_id=refund.external_id,
        return_identification=refund.shown_id,
        original_end_to_end_id=refund.original_end_to_end_id,
        correlation_id=str(refund.correlation_id),
        amount=refund.amount_cents,
        status=refund.status,
        flow=refund.flow,
        reason=refund.reason,
        description=refund.description,
        create_timestamp=format_instant(refund.created_at),
        last_modified=format_instant(refund.modified_at),
    )
