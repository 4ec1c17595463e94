"""An infraction: the payer of a received Pix contests it, and the holder's institution decides.

::

    open ──the holder answers──► answered ──► released    the block ends, the money is the holder's to spend again
      └───────────────────────────────┴────► taken        the institution has given back what there was

The institution blocks, decides and returns; its reports are mirrored here, in any order: each contains the whole state. The
holder may answer until ``respond_by``. While it is open or answered, that Pix cannot be refunded here.
"""

import unicodedata
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.features.sandbox.rules import ControlCall
from pixconnect.kernel.rules import event as events
from pixconnect.kernel.rules.block_report import (
    BlockTerms,
    Defence,
    DefenceAnswer,
    DefenceRefused,
    DefenceTaken,
    DefenceUnknown,
    InfractionReason,
    InfractionReport,
    InfractionState,
    Situation,
)
from pixconnect.kernel.rules.event import Amount, Event, EventFamily, EventName, Instant
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.kept_report import Misfit, find_change
from pixconnect.kernel.rules.money import AmountCents
from pixconnect.kernel.rules.rail import Abilities, MessageKind
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

DefenceState = Literal["sending", "sent", "refused"]
Judged = Literal["by_answer", "take", "release", "never"]
"""``by_answer`` releases answered ones and takes the others; with ``never`` the block ends by itself."""

REMINDED_BEFORE: Final = (timedelta(hours=48), timedelta(hours=24), timedelta(hours=6))
UNHEARD: Final = "it was decided before your institution confirmed that it has the answer"
"""Why a pending answer is no longer sent."""
SEND_AGAIN_AFTER: Final = timedelta(seconds=10)  # an answer that the institution may lack; repetitions are idempotent
SEND_AGAIN_THERE_AFTER: Final = timedelta(minutes=2)  # likewise at an account, within its budget of calls

_ORDER: Final[dict[InfractionState, int]] = {"open": 0, "answered": 1, "taken": 2, "released": 2}
_EVENT_NAMES: Final[dict[InfractionState, EventName]] = {
    "open": "infraction.opened",
    "answered": "infraction.answered",
    "taken": "infraction.taken",
    "released": "infraction.released",
}


class InfractionAnswered(errors.RuleBroken):
    """The infraction was answered before, and is answered once."""


class InfractionClosed(errors.RuleBroken):
    """The infraction is decided, or the time to answer it is over."""


REFUSALS: Final = (InfractionAnswered, InfractionClosed)


class Infraction(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    institution_id: int | None
    """The account at an institution; ``None`` is the installation's own rail."""
    name: str
    """The institution's, unique on the account."""
    transfer_id: int
    end_to_end_id: str
    charge_id: int | None
    """The charge that the Pix has paid."""
    txid: str | None
    charge_external_id: str | None
    amount_cents: int
    taken_cents: int
    """The sum that the institution has returned because of it."""
    reason: InfractionReason
    situation: Situation
    words: str | None
    state: InfractionState
    opened_at: datetime
    """By the institution's clock, as ``respond_by`` and ``reported_at`` are."""
    respond_by: datetime
    reported_at: datetime
    """The date of the institution's report: an older one changes nothing."""
    defence: str | None = None
    defended_at: datetime | None = None
    defence_state: DefenceState | None = None
    defence_refusal: str | None = None
    send_at: datetime | None = None
    """When the answer is sent next; set while it is pending."""
    remind_at: datetime | None = None
    slot: int
    created_at: datetime
    modified_at: datetime

    @property
    def is_open(self) -> bool:
        return self.state in {"open", "answered"}

    def can_be_answered(self, now: datetime) -> bool:
        """Whether its holder may still answer it, as ``defend`` decides."""
        is_answered = self.defence is not None and self.defence_state != "refused"
        return self.state == "open" and not is_answered and now < self.respond_by


class InfractionReturn(Struct, frozen=True, kw_only=True):
    """The link from a refund to the infraction that caused it."""

    refund_id: int
    holder_id: int
    infraction_id: int


def find_infraction_misfit(report: InfractionReport, known: Infraction | None, transfer: Transfer | None) -> Misfit | None:
    """Find why a report is implausible, before anything is done."""
    if transfer is None or transfer.is_book or transfer.settled_at is None:
        explanation = f"contests {report.end_to_end_id}, and no such Pix was received here"
        # The payer has the money back, and none of it is here: an operator must check the contest.
        if transfer is not None and transfer.status == "ERROR":
            explanation = f"contests {report.end_to_end_id}, which did not settle here: its payer has the money"
            return Misfit(reason="contradiction", explanation=explanation)
        return Misfit(reason="unknown_order", explanation=explanation)
    if report.amount_cents > transfer.amount_cents:
        explanation = f"contests {report.amount_cents} cents of a Pix of {transfer.amount_cents}"
        return Misfit(reason="contradiction", explanation=explanation)
    if known is None:
        return None
    members = ("amount_cents", "end_to_end_id", "reason")
    changed = find_change({each: (getattr(known, each), getattr(report, each)) for each in members})
    if changed is None and not known.is_open and _ORDER[report.state] == _ORDER[known.state] != 0:
        return None if report.state == known.state else _contradict(report, known)
    # A report of its continuation is older than its end, or is implausible.
    goes_back = not known.is_open and report.state in {"open", "answered"} and report.reported_at > known.reported_at
    return changed or (_contradict(report, known) if goes_back else None)


def _contradict(report: InfractionReport, known: Infraction) -> Misfit:
    explanation = f"the infraction {known.name} is {known.state}, and is reported as {report.state}"
    return Misfit(reason="contradiction", explanation=explanation)


def begin_infraction(
    report: InfractionReport, transfer: Transfer, infraction_id: int, charge_external_id: str | None, now: datetime
) -> Infraction:
    return Infraction(
        id=infraction_id,
        holder_id=transfer.holder_id,
        institution_id=transfer.institution_id,
        name=report.name,
        transfer_id=transfer.id,
        end_to_end_id=transfer.end_to_end_id,
        charge_id=transfer.charge_id,
        txid=transfer.txid,
        charge_external_id=charge_external_id,
        amount_cents=report.amount_cents,
        taken_cents=0,
        reason=report.reason,
        situation=report.situation,
        words=report.words,
        state="open",
        opened_at=report.opened_at,
        respond_by=report.respond_by,
        reported_at=report.reported_at,
        remind_at=find_reminder(report.respond_by, now),
        slot=transfer.slot,
        created_at=now,
        modified_at=now,
    )


def find_reminder(respond_by: datetime, after: datetime) -> datetime | None:
    return min((at for before in REMINDED_BEFORE if (at := respond_by - before) > after), default=None)


def follow(infraction: Infraction, report: InfractionReport, taken_cents: int, now: datetime) -> Infraction:
    """Apply a report, as far as it advances the state: a step is never undone."""
    is_later = report.reported_at > infraction.reported_at
    state = report.state if _ORDER[report.state] > _ORDER[infraction.state] else infraction.state
    respond_by = report.respond_by if is_later else infraction.respond_by
    is_asked = state == "open" and infraction.defence is None
    # The report of its answer may come after the decision.
    is_delivered = "answered" in {state, report.state} and infraction.defence is not None
    is_undelivered = not is_delivered and state in {"taken", "released"} and infraction.defence_state == "sending"
    return structs.replace(
        infraction,
        state=state,
        taken_cents=infraction.taken_cents + taken_cents,
        respond_by=respond_by,
        reported_at=max(infraction.reported_at, report.reported_at),
        remind_at=find_reminder(respond_by, now) if is_asked else None,
        # Once it is decided, or the institution has an answer, nothing is sent any more.
        send_at=infraction.send_at if state == "open" else None,
        defence_state="sent" if is_delivered else "refused" if is_undelivered else infraction.defence_state,
        defence_refusal=None if is_delivered else UNHEARD if is_undelivered else infraction.defence_refusal,
        modified_at=now,
    )


def block_of(report: InfractionReport) -> BlockTerms:
    is_over = report.state == "released"
    return BlockTerms(
        reference=report.name,
        kind="med",
        wanted_cents=0 if is_over else report.wanted_cents,
        held_cents=0 if is_over else report.held_cents,
        respond_by=report.respond_by,
        until=report.until,
    )


def check_defence(abilities: Abilities, text: str) -> None:
    if not abilities.defence_length_max:
        raise InfractionClosed("id: the institution of this account takes no answers here; answer it there")
    # Marks, spaces and control characters such as U+200B are invisible.
    says_something = any(unicodedata.category(character)[0] in "LNPS" for character in text)
    if not says_something or len(text) > abilities.defence_length_max:
        raise errors.BadRequest(f"text: must have 1 to {abilities.defence_length_max} characters, not all blank")


def defend(infraction: Infraction, text: str, now: datetime) -> Infraction:
    """Answer it; the text is sent to the institution afterwards, until that has it.

    Raises:
        InfractionAnswered: Another text is pending, or the institution has one.
        InfractionClosed: It is decided, or the deadline has passed.
    """
    if infraction.defence is not None and infraction.defence_state != "refused":
        if infraction.defence == text:
            return infraction
        raise InfractionAnswered("text: it was answered before, in other words, and is answered once")
    if infraction.state == "answered":
        raise InfractionAnswered("id: it was answered at the institution")
    if infraction.state != "open":
        raise InfractionClosed("id: the institution has decided it")
    if now >= infraction.respond_by:
        raise InfractionClosed(f"id: it could be answered until {format_instant(infraction.respond_by)}")
    return structs.replace(
        infraction,
        defence=text,
        defended_at=now,
        defence_state="sending",
        defence_refusal=None,
        send_at=now,
        remind_at=None,
        modified_at=now,
    )


def note_answer(infraction: Infraction, answer: DefenceAnswer, now: datetime) -> Infraction:
    match answer:
        case DefenceTaken():
            state = "answered" if infraction.state == "open" else infraction.state
            return structs.replace(infraction, state=state, defence_state="sent", send_at=None, modified_at=now)
        case DefenceRefused(reason=reason):
            return structs.replace(infraction, defence_state="refused", defence_refusal=reason, send_at=None, modified_at=now)
        case _:
            after = SEND_AGAIN_AFTER if infraction.institution_id is None else SEND_AGAIN_THERE_AFTER
            return structs.replace(infraction, send_at=now + after)


def remind(infraction: Infraction, now: datetime) -> tuple[Infraction, bool]:
    """Advance to the next reminder; return whether one is due."""
    if infraction.remind_at is None or infraction.remind_at > now:
        return infraction, False
    remind_at = find_reminder(infraction.respond_by, now)
    return structs.replace(infraction, remind_at=remind_at, modified_at=now), now < infraction.respond_by


class InfractionPayload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of ``infraction.*`` events."""

    id: int
    """The infraction's id here."""
    infraction_id: str
    """Your institution's name of it."""
    end_to_end_id: str
    """The Pix that is contested, by its name on the whole network."""
    transfer_id: int
    """The id of its transfer."""
    charge_id: int | None = None
    """The charge that the Pix has paid."""
    transaction_identification: str | None = None
    """The txid that the Pix names."""
    external_id: str | None = None
    """Your own name for the charge, or the one that the service made."""
    amount: Amount
    """How much of the Pix is contested."""
    held: Amount
    """How much of your money is blocked because of it."""
    taken: Amount
    """How much your institution has given back because of it."""
    reason: Literal["fraud", "operational_flaw"]
    """The payer's institution's reason: the payer was deceived, or the Pix went wrong by a fault."""
    situation: Literal["scam", "account_takeover", "coercion", "fraudulent_access", "other"]
    """The situation, in the words of the key directory."""
    words: str | None = None
    """The payer's words."""
    status: str
    """`OPEN`, `ANSWERED`, `TAKEN` or `RELEASED`."""
    respond_by: Instant
    """Until when you can answer."""
    respond_to: str
    """Where you answer: the path of the operation."""
    create_timestamp: Instant
    """When it was recorded here."""


FAMILIES: Final = (
    EventFamily(
        prefix="infraction.",
        schema="InfractionEvent",
        payload=InfractionPayload,
        resource="Infraction",
        example=lambda status: dict(
            infraction_id="I6071",
            held=1000,
            taken=1000 if status == "TAKEN" else 0,
            reason="fraud",
            situation="scam",
            respond_to="/v1/connect/infraction/id/1/defence",
        ),
    ),
)


def announce_infraction(infraction: Infraction, held_cents: int, name: EventName | None, event_id: int) -> Event:
    name = name or _EVENT_NAMES[infraction.state]
    payload = InfractionPayload(
        id=infraction.id,
        infraction_id=infraction.name,
        end_to_end_id=infraction.end_to_end_id,
        transfer_id=infraction.transfer_id,
        charge_id=infraction.charge_id,
        transaction_identification=infraction.txid,
        external_id=infraction.charge_external_id,
        amount=infraction.amount_cents,
        held=held_cents,
        taken=infraction.taken_cents,
        reason=infraction.reason,
        situation=infraction.situation,
        words=infraction.words,
        status=infraction.state.upper(),
        respond_by=format_instant(infraction.respond_by),
        respond_to=f"/v1/connect/infraction/id/{infraction.id}/defence",
        create_timestamp=format_instant(infraction.created_at),
    )
    return events.make_event(event_id, name, payload, "infraction", infraction, infraction.modified_at)


def is_repetition(known: Infraction, report: InfractionReport) -> bool:
    """Whether a report contains nothing new: lists are read repeatedly."""
    return (
        known.reported_at >= report.reported_at
        and (known.state, known.amount_cents, known.end_to_end_id, known.reason)
        == (report.state, report.amount_cents, report.end_to_end_id, report.reason)
        and known.taken_cents == sum(part.amount_cents for part in report.taken)
    )


# Calls of the simulated network: outsiders contest Pix, and the holder's institution decides.


class OutsideInfraction(Struct, frozen=True, kw_only=True):
    """A payer contests a Pix that a holder received."""

    end_to_end_id: str
    party: Party
    amount_cents: AmountCents | None  # ``None`` is all of it
    # The holder's unblocked money at the institution, without contests, which the sandbox knows itself.
    funds_cents: int
    reason: InfractionReason
    situation: Situation
    words: str | None
    judged: Judged  # the decision at the deadline


class OutsideDecision(Struct, frozen=True, kw_only=True):
    """The institution's decision by hand."""

    name: str
    decision: Literal["take", "release", "hold"]
    amount_cents: AmountCents | None  # ``None`` is all that is held


OPEN_INFRACTION: Final = ControlCall(name="infractions", asked=OutsideInfraction, answer=InfractionReport, timeout_s=20.0)
DECIDE_INFRACTION: Final = ControlCall(name="decisions", asked=OutsideDecision, answer=InfractionReport, timeout_s=20.0)
DEFENCES: Final = MessageKind[Defence, DefenceAnswer](name="defences", answers=list[DefenceAnswer], unknown=DefenceUnknown())
DEFEND: Final = ControlCall(name=DEFENCES.name, asked=list[Defence], answer=DEFENCES.answers)
