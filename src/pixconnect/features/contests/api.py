"""Infractions in the API: contested Pix; and, in the sandbox, how an outside payer contests one."""

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct

from pixconnect.doors.api import paging
from pixconnect.doors.api.envelope import Amount, Id, Instant, Listing, ListQuery, clamp_cents
from pixconnect.doors.api.operation import Nothing, Request, Section, Services
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import ID, INFRACTION, NONE
from pixconnect.features.contests.rules.infraction import DefenceState, Judged
from pixconnect.features.contests.service import defence as defence_usecases
from pixconnect.features.contests.service import outside as outside_usecases
from pixconnect.features.contests.service.defence import ShownInfraction
from pixconnect.kernel.rules.block_report import (
    WORDS_LENGTH_MAX,
    InfractionReason,
    InfractionReport,
    InfractionState,
    Situation,
)
from pixconnect.platform.base.clock import format_instant

InfractionStatus = Literal["OPEN", "ANSWERED", "TAKEN", "RELEASED"]
# The API has our words in capitals.
_STATUSES: Final[dict[InfractionState, InfractionStatus]] = {word.lower(): word for word in get_args(InfractionStatus)}
_STATES: Final[dict[InfractionStatus, InfractionState]] = {status: state for state, status in _STATUSES.items()}
_Sent = Literal["SENDING", "SENT", "REFUSED"]
_SENT: Final[dict[DefenceState, _Sent]] = {word.lower(): word for word in get_args(_Sent)}


class InfractionDefence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Your answer."""

    text: str
    """Your words."""
    status: Literal["SENDING", "SENT", "REFUSED"]
    """SENDING until your institution has it."""
    refusal: str | None = None
    """Why your institution did not take it: then you may answer again, in time."""
    create_timestamp: Instant
    """When you answered."""


class Infraction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A contested Pix that you received; your institution judges it."""

    id: Id
    """The service's own name for it."""
    infraction_id: str
    """Your institution's name for it."""
    end_to_end_id: str
    """The Pix."""
    transfer_id: Id
    """Its transfer."""
    charge_id: Id | None = None
    """The charge that it has paid."""
    transaction_identification: str | None = None
    """The txid that it names."""
    external_id: str | None = None
    """Your own name for the charge."""
    amount: Amount
    """How much is contested."""
    held: Annotated[int, Meta(ge=0)]
    """How much of your money is blocked for it. Cents."""
    taken: Annotated[int, Meta(ge=0)]
    """How much your institution has given back. Cents."""
    reason: InfractionReason
    """That the payer was deceived, or that the Pix went wrong by a fault."""
    situation: Situation
    """The situation, in the words of the key directory."""
    words: str | None = None
    """The payer's words."""
    status: InfractionStatus
    """TAKEN and RELEASED are its ends."""
    open_timestamp: Instant
    """When it was opened."""
    respond_by: Instant
    """Until when you can answer."""
    text_length_max: int
    """How many characters of an answer your institution takes."""
    defence: InfractionDefence | None = None
    """Your answer."""
    create_timestamp: Instant
    """When it was recorded."""
    last_modified: Instant
    """When it last changed."""


class InfractionListQuery(ListQuery, frozen=True, kw_only=True):
    """Which infractions."""

    status: InfractionStatus | None = None
    """Only infractions of this status."""


class DefenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Your answer."""

    text: Annotated[str, Meta(min_length=1, max_length=10_000)]
    """Why the Pix is rightly yours; `text_length_max` is the maximum length."""


async def list_infractions(services: Services, request: Request[None, InfractionListQuery, Nothing]) -> Listing[Infraction]:
    """List your infractions.

    Newest first. Without `status`, all of them.
    """
    asked = paging.read_asked("infractions", request)
    status = request.query.status
    state = None if status is None else _STATES[status]
    page = await defence_usecases.list_infractions(services.context, request.caller, state, asked.span)
    return asked.show(page, [_show(each) for each in page.items])


async def get_infraction_by_id(services: Services, request: Request[int, Nothing, Nothing]) -> Infraction:
    """Read an infraction by its id."""
    return _show(await defence_usecases.read_infraction(services.context, request.caller, request.parameter))


async def defend_infraction(services: Services, request: Request[int, Nothing, DefenceRequest]) -> Infraction:
    """Answer an infraction.

    Once, and until `respond_by`: your institution judges your answer. The same words again return the same infraction in its
    present state.
    """
    return _show(await defence_usecases.defend(services.context, request.caller, request.parameter, request.body.text))


def _show(shown: ShownInfraction) -> Infraction:
    infraction = shown.infraction
    defence = None
    if infraction.defence is not None and infraction.defended_at is not None and infraction.defence_state is not None:
        defence = InfractionDefence(
            text=infraction.defence,
            status=_SENT[infraction.defence_state],
            refusal=infraction.defence_refusal,
            create_timestamp=format_instant(infraction.defended_at),
        )
    return Infraction(
        id=infraction.id,
        infraction_id=infraction.name,
        end_to_end_id=infraction.end_to_end_id,
        transfer_id=infraction.transfer_id,
        charge_id=infraction.charge_id,
        transaction_identification=infraction.txid,
        external_id=infraction.charge_external_id,
        amount=infraction.amount_cents,
        held=shown.held_cents,
        taken=infraction.taken_cents,
        reason=infraction.reason,
        situation=infraction.situation,
        words=infraction.words,
        status=_STATUSES[infraction.state],
        open_timestamp=format_instant(infraction.opened_at),
        respond_by=format_instant(infraction.respond_by),
        text_length_max=shown.text_length_max,
        defence=defence,
        create_timestamp=format_instant(infraction.created_at),
        last_modified=format_instant(infraction.modified_at),
    )


class InfractionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outside payer contests a Pix that you received."""

    end_to_end_id: str
    """Names the Pix."""
    amount: Amount | None = None
    """How much is contested; all of it if left out."""
    reason: Annotated[InfractionReason, Meta(extra_json_schema=dict(default="fraud"))] | None = None
    """The payer's institution's reason."""
    situation: Annotated[Situation, Meta(extra_json_schema=dict(default="scam"))] | None = None
    """The situation."""
    words: Annotated[str, Meta(min_length=1, max_length=WORDS_LENGTH_MAX)] | None = None
    """The payer's words."""
    judged: Annotated[Judged, Meta(extra_json_schema=dict(default="by_answer"))] | None = None
    """The decision after seven days: `by_answer` releases answered ones and takes the others; with `never` the block ends by
    itself after eleven."""


class DecisionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The institution's decision by hand."""

    decision: Literal["take", "release", "hold"]
    """Return the held money, release it, or block more of the claim."""
    amount: Amount | None = None
    """How much; all that is held if left out."""


class SandboxInfraction(Struct, frozen=True, kw_only=True):
    """An infraction as the sandbox has it."""

    infraction_id: str
    """Its name, for decisions in the sandbox."""
    end_to_end_id: str
    """The Pix."""
    amount: Amount
    """How much is contested."""
    wanted: Annotated[int, Meta(ge=0)]
    """The claimed amount, to be blocked as far as available. Cents."""
    held: Annotated[int, Meta(ge=0)]
    """How much of that is blocked. Cents."""
    status: InfractionStatus
    """How far it is."""
    respond_by: Instant
    """Until when you can answer."""


async def open_infraction(services: Services, request: Request[None, Nothing, InfractionRequest]) -> SandboxInfraction:
    """Contest a received Pix.

    The sandbox is your institution: it blocks the available part at once, receives your answer, and decides by `decide`, or
    after seven days. The event is `infraction.opened`.
    """
    body = request.body
    report = await outside_usecases.open_infraction(
        services.context,
        request.caller,
        body.end_to_end_id,
        None if body.amount is None else clamp_cents(body.amount),
        reason=body.reason or "fraud",
        situation=body.situation or "scam",
        words=body.words,
        judged=body.judged or "by_answer",
    )
    return _show_report(report)


async def decide_infraction(services: Services, request: Request[str, Nothing, DecisionRequest]) -> SandboxInfraction:
    """Decide an infraction by hand.

    As your institution would: the events are `infraction.taken` and `infraction.released`.
    """
    body = request.body
    amount_cents = None if body.amount is None else clamp_cents(body.amount)
    report = await outside_usecases.decide_infraction(
        services.context, request.caller, request.parameter, body.decision, amount_cents
    )
    return _show_report(report)


def _show_report(report: InfractionReport) -> SandboxInfraction:
    return SandboxInfraction(
        infraction_id=report.name,
        end_to_end_id=report.end_to_end_id,
        amount=report.amount_cents,
        wanted=report.wanted_cents,
        held=report.held_cents,
        status=_STATUSES[report.state],
        respond_by=format_instant(report.respond_by),
    )


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
SECTIONS: Final = (
    Section(
        title="Infractions",
        text="Contested Pix: your institution's blocks and decisions, and your answers.",
        operations=(
            Row("list_infractions", "GET", "/v1/connect/infraction/list", "infraction.read",
                NONE, InfractionListQuery, Nothing, Listing[Infraction], list_infractions),
            Row("get_infraction_by_id", "GET", "/v1/connect/infraction/id/{id}", "infraction.read",
                ID, Nothing, Nothing, Infraction, get_infraction_by_id),
            Row("defend_infraction", "POST", "/v1/connect/infraction/id/{id}/defence", "infraction.write",
                ID, Nothing, DefenceRequest, Infraction, defend_infraction,
                rules=("INFRACTION_ANSWERED", "INFRACTION_CLOSED")),
        ),
    ),
    Section(title="Sandbox", operations=(
        Row("sandbox_open_infraction", "POST", "/sandbox/v1/infractions", "any",
            NONE, Nothing, InfractionRequest, SandboxInfraction, open_infraction),
        Row("sandbox_decide_infraction", "POST", "/sandbox/v1/infractions/{infractionId}/decide", "any",
            INFRACTION, Nothing, DecisionRequest, SandboxInfraction, decide_infraction),
    )),
)
# fmt: on
