"""An order: an outgoing transfer or refund that the rail has not ended yet.

It exists beside its transfer or refund from acceptance to the end, and holds only the state of its way over the rail: the
transfer or refund itself does not change meanwhile, except for the network's name.

Whether an accepted order's money may still leave: checked when an operator approves it and when it starts late.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.kernel.register import find_name_window
from pixconnect.kernel.rules import identifiers, kept_report, reject_code
from pixconnect.kernel.rules import refund as refund_rules
from pixconnect.kernel.rules import transfer as transfer_rules
from pixconnect.kernel.rules.ledger import Balance
from pixconnect.kernel.rules.rail import Abilities, NeverTaken, Rejected, Settled
from pixconnect.kernel.rules.refund import AUTOMATIC_PREFIX, Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors

OrderApproval = Literal["awaited", "given", "refused"]
"""The decision on an order that needs an operator's approval. Time and a loss of the database refuse too."""
HoldsUp = Literal["operator", "approval", "funds", "institution"]
"""Why a transfer waits: an operator's approval here, an approval or funds at its institution, or its suspicion there."""
_TO_LEAVE: Final = timedelta(hours=1)
"""How long before the network rejects an order's name it is too late to approve it: an order needs time to leave."""


class OrderWait(Struct, frozen=True, kw_only=True):
    """An order that waits for a person's action."""

    waits_for: HoldsUp
    since: datetime


class GivenUp(Struct, frozen=True):
    """The order was not handed to the rail in time."""

    approval: OrderApproval | None = None  # the decision until then, if it needed approval
    hold: str | None = None  # why it was not allowed to leave


Ending = Settled | Rejected | NeverTaken | GivenUp

GIVEN_UP_REASON = "It could not be handed to the rail in time."
GIVEN_UP_REASONS: Final[Mapping[OrderApproval, str]] = {
    "given": "An operator approved it, and it could not be handed to the rail in time.",
    "awaited": "No operator approved it in time.",
    "refused": "An operator refused it.",
}
NEVER_TAKEN_REASON = "It never reached the rail, and its time is over: the rail no longer takes it."


class OpenOrder(Struct, frozen=True, kw_only=True):
    name: str  # our ``end_to_end_id`` of a transfer, our ``return_id`` of a refund
    holder_id: int
    resource_id: int
    slot: int  # that of its transfer or refund
    ordered_at: datetime
    due_at: datetime
    give_up_at: datetime
    # Written before the order is first sent to the rail. From then on only the rail's answer ends it.
    handed_at: datetime | None = None
    asked_count: int = 0
    network_id: str | None = None  # the network's name, once reported, if that is not ``name``
    # The account at an institution over which it goes; ``None`` is the installation's own rail.
    institution_id: int | None = None
    br_code: str | None = None  # of a transfer over an account that pays one
    approval: OrderApproval | None = None  # set if it needed an operator's approval

    @property
    def may_leave(self) -> bool:
        """Whether it needs no further approval."""
        return self.approval in (None, "given")

    @property
    def is_transfer(self) -> bool:
        """Whether it is a transfer's; the others are refunds'."""
        return identifiers.names_a_transfer(self.name)


def complete_ending(ending: Ending, order: OpenOrder) -> Ending:
    return structs.replace(ending, approval=order.approval) if isinstance(ending, GivenUp) else ending


def name_of(ordered: Transfer | Refund) -> str:
    return ordered.end_to_end_id if isinstance(ordered, Transfer) else ordered.return_id


def open_order(
    ordered: Transfer | Refund,
    now: datetime,
    handover_timeout: timedelta,
    *,
    original: Transfer | None = None,
    br_code: str | None = None,
) -> OpenOrder:
    """Open the order of a transfer, or of a refund, which goes over the account of its original."""
    over = ordered if isinstance(ordered, Transfer) else original
    return OpenOrder(
        name=name_of(ordered),
        holder_id=ordered.holder_id,
        resource_id=ordered.id,
        slot=ordered.slot,
        ordered_at=now,
        due_at=now,  # handed over at once
        give_up_at=now + handover_timeout,
        institution_id=over and over.institution_id,
        br_code=br_code,
    )


def await_approval(order: OpenOrder, handover_timeout: timedelta) -> OpenOrder:
    """Return the new order as one that leaves only once an operator has approved it."""
    named_at = identifiers.minute_of_name(order.name) or order.ordered_at
    until = max(named_at + find_name_window(named_at) - _TO_LEAVE, order.ordered_at + handover_timeout)
    # No worker processes it before.
    return structs.replace(order, approval="awaited", due_at=until, give_up_at=until)


def decide_approval(order: OpenOrder, now: datetime, handover_timeout: timedelta, *, is_approved: bool) -> OpenOrder:
    """Return an order with an operator's decision: a worker hands it over, or gives it up, at once."""
    errors.ensure(order.approval == "awaited", order.approval)
    give_up_at = now + handover_timeout if is_approved else now
    return structs.replace(order, approval="given" if is_approved else "refused", due_at=now, give_up_at=give_up_at)


class FirstIds(Struct, frozen=True, kw_only=True):
    """The first ids assigned after the last start of the database's server; 0 while none is known."""

    transfer_id: int = 0
    refund_id: int = 0


def outlived_start(order: OpenOrder, first_ids: FirstIds) -> bool:
    """Whether it was open before the server started: a copy of the data may lack its mark, or its end."""
    # By its id and not by its time, which the sandbox's clock moves.
    return order.resource_id < (first_ids.transfer_id if order.is_transfer else first_ids.refund_id)


def is_too_late(order: OpenOrder, now: datetime) -> bool:
    # `now` is the database's clock, read under the lock: the worker's own may be ahead.
    return order.give_up_at <= now


def may_give_up(order: OpenOrder, now: datetime, first_ids: FirstIds) -> bool:
    """Whether it was certainly never handed over, and its time is over."""
    return order.handed_at is None and is_too_late(order, now) and not outlived_start(order, first_ids)


def may_send(order: OpenOrder, now: datetime, first_ids: FirstIds) -> bool:
    """Whether it may be sent to the rail for the first time now."""
    # An order from before a start is sent only while its time lasts. Later it is unexpected, and this may be a copy of the
    # data.
    return not (is_too_late(order, now) and outlived_start(order, first_ids))


Step = Literal["ask", "give up", "leave", "count as handed", "hold", "send"]


def next_step(
    order: OpenOrder, now: datetime, first_ids: FirstIds, abilities: Abilities, *, is_held: bool, has_rail: bool
) -> Step:
    """Return the worker's next step for a due order; the first reason in this order counts."""
    if order.handed_at is not None:
        return "ask"
    if may_give_up(order, now, first_ids):
        return "give up"
    # The clock was set back: workers leave an order that may not leave until its time is over.
    if not (order.may_leave or is_too_late(order, now)):
        return "leave"
    # It may have been sent without its mark, so the rail is queried first. If the rail does not answer by our id, we could
    # never learn whether a young order was sent.
    if outlived_start(order, first_ids) and (is_too_late(order, now) or abilities.answers_by_our_id):
        return "count as handed"
    if is_held:
        return "hold"
    # Without a rail none is marked, so that it can be given up when its time is over.
    return "send" if has_rail else "leave"


def name_to_ask_by(order: OpenOrder, abilities: Abilities) -> str | None:
    """Return the name for querying the rail; ``None`` if only a report can end the order."""
    return order.name if abilities.answers_by_our_id else order.network_id


def end_transfer(transfer: Transfer, ending: Ending, now: datetime) -> Transfer:
    """Apply how its order ended to the transfer: money moves only where it settled."""
    match ending:
        case Settled(settled_at=network_at):
            return transfer_rules.settle_transfer(transfer, now, network_at)
        case Rejected(code=code, reason=reason):
            return transfer_rules.fail_transfer(transfer, *_storable(code, reason), now)
        case NeverTaken():
            # It was handed over, so it has failed: only unsent orders are cancelled.
            return transfer_rules.fail_transfer(transfer, reject_code.NEVER_TAKEN, NEVER_TAKEN_REASON, now)
        case GivenUp(approval=approval, hold=hold):
            reason = GIVEN_UP_REASON if approval is None else GIVEN_UP_REASONS[approval]
            return transfer_rules.cancel_transfer(transfer, _with_hold(reason, hold), now)


def end_refund(refund: Refund, ending: Ending, now: datetime) -> Refund:
    """Apply how its order ended to the refund: money moves only where it settled."""
    match ending:
        case Settled(settled_at=network_at):
            return refund_rules.settle_refund(refund, now, network_at)
        case Rejected(code=code, reason=reason):
            return refund_rules.fail_refund(refund, *_storable(code, reason), now)
        case NeverTaken():
            return refund_rules.fail_refund(refund, reject_code.NEVER_TAKEN, NEVER_TAKEN_REASON, now)
        case GivenUp(hold=hold):
            reason = _with_hold(GIVEN_UP_REASON, hold)
            return refund_rules.fail_refund(refund, reject_code.NOT_HANDED_OVER, reason, now)


def _with_hold(reason: str, hold: str | None) -> str:
    return reason if hold is None else f"{reason.removesuffix('.')}: {hold}."


def _storable(code: str, reason: str) -> tuple[str, str]:
    # A rejection counts regardless of its texts, so these are cut rather than refused.
    return kept_report.storable(code, 35), kept_report.storable(reason, 1000)


class WaitingOrder(Struct, frozen=True, kw_only=True):
    """An accepted transfer or refund with reserved money, and its holder's present state."""

    ordered: Transfer | Refund
    balance: Balance
    is_disabled: bool  # by an operator
    is_heir_blocked: bool  # the holder's successor may not withdraw, or is disabled

    @property
    def name(self) -> str:
        return name_of(self.ordered)

    @property
    def is_holders(self) -> bool:
        """Whether the money is the holder's: a payment that was not accepted is not."""
        return not (isinstance(self.ordered, Refund) and (self.ordered.external_id or "").startswith(AUTOMATIC_PREFIX))


def find_flag_hold(waiting: WaitingOrder) -> str | None:
    if not waiting.is_holders:
        return None
    if not waiting.balance.may_withdraw:
        return "the holder may not withdraw"
    if waiting.is_disabled:
        return "the holder is disabled"
    return "the holder's successor may not withdraw or is disabled" if waiting.is_heir_blocked else None


def find_debt_hold(waiting: WaitingOrder) -> str | None:
    if not waiting.is_holders or not waiting.balance.deficit_cents:
        return None
    return f"the holder owes {waiting.balance.deficit_cents} cents that its institution took"
