"""The way to each event in a sandbox: real charges, transfers, refunds and rules, and never an invented event.

A recipe causes it and returns the identifying field of the payload, with its value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, TypeVar

from msgspec import Struct

from pixconnect.doors.cli import terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.kernel.rules.event import EventName
from pixconnect.platform.base.clock import format_local
from pixconnect_client import (
    Charge,
    Client,
    FaultMatch,
    FaultOperation,
    FaultRule,
    Infraction,
    NotFound,
    OutsidePayer,
    Refund,
    Transfer,
)

AMOUNT_CENTS: Final = 1_000
_PAYEE_KEY: Final = "settle@sandbox.pix.example"
_DAY_S: Final = 86_400
_DAYS_MAX: Final = 30
_SETTLED_WITHIN_S: Final = 30.0
_ASKED_AGAIN_AFTER_S: Final = 0.05


class Chosen(Struct, frozen=True, kw_only=True):
    client: Client
    key: str  # the holder's Pix key, which receives the payment
    amount: int = AMOUNT_CENTS
    external_id: str | None = None
    payer: OutsidePayer = OutsidePayer()
    code: str = "AC03"  # the network's rejection code for an error


Ended = TypeVar("Ended", Transfer, Refund, Infraction)
Mark = tuple[str, int | str]


def charge_approved(chosen: Chosen) -> Mark:
    charge = _charge(chosen)
    chosen.client.sandbox.pay(charge.emvqrcps, payer=chosen.payer)
    return "id", charge.id


def charge_expired(chosen: Chosen) -> Mark:
    charge = _charge(chosen)
    # The lifetime of a charge is a setting of the service, which callers cannot read.
    for day in range(1, _DAYS_MAX + 1):
        now = chosen.client.sandbox.advance_clock(_DAY_S).now
        if chosen.client.charges.get(charge.id).status == "EXPIRED":
            terminal.notice(f"the sandbox's clock is {day} d further, at {format_local(now)} (`pixconnect clock reset`)")
            return "id", charge.id
    raise CommandError(f"the charge {charge.id} lives for more than {_DAYS_MAX} days", status=ExitStatus.ENDED_BADLY)


def transfer_in(chosen: Chosen) -> Mark:
    paid = chosen.client.sandbox.receive(chosen.key, chosen.amount, payer=chosen.payer)
    return "end_to_end_id", paid.end_to_end_id


def transfer_in_refused(chosen: Chosen) -> Mark:
    # A charge accepts exactly its amount.
    paid = chosen.client.sandbox.pay(_charge(chosen).emvqrcps, amount=chosen.amount + 1, payer=chosen.payer)
    return "end_to_end_id", paid.end_to_end_id


def transfer_out(chosen: Chosen) -> Mark:
    return "id", _send(chosen, _PAYEE_KEY).id


def refund_in(chosen: Chosen) -> Mark:
    returned = chosen.client.sandbox.give_back(_send_and_wait(chosen).end_to_end_id)
    return "return_identification", returned.return_identification


def refund_in_refused(chosen: Chosen) -> Mark:
    # The amount cannot exceed the sent one.
    sent = _send_and_wait(chosen)
    returned = chosen.client.sandbox.give_back(sent.end_to_end_id, amount=chosen.amount + 1)
    return "return_identification", returned.return_identification


def refund_out_rejected(chosen: Chosen) -> Mark:
    rule = FaultRule(
        effect=f"reject:{chosen.code}", match=FaultMatch(operation=FaultOperation("refund"), amount=chosen.amount), times=1
    )
    with _with_rule(chosen.client, rule):
        refund = _refund(chosen)
        _wait_while("PROCESSING", lambda: chosen.client.refunds.get(refund.id))
    return "id", refund.id


def infraction_answered(chosen: Chosen) -> Mark:
    name = _contest(chosen)
    client = chosen.client
    found = next(each for each in client.infractions.list(status="OPEN") if each.infraction_id == name)
    client.infractions.defend(found.id, "The parcel was delivered to who paid for it.")
    _wait_while("OPEN", lambda: client.infractions.get(found.id))
    return "infraction_id", name


def infraction_reminded(chosen: Chosen) -> Mark:
    name = _contest(chosen)
    # Seven days to answer, and two before that are over.
    now = chosen.client.sandbox.advance_clock(5 * _DAY_S + 60).now
    terminal.notice(f"the sandbox's clock is 5 d further, at {format_local(now)} (`pixconnect clock reset`)")
    return "infraction_id", name


def transfer_in_held(chosen: Chosen) -> Mark:
    # It stays held: after 72 hours of the sandbox's clock it is released, or before by hand.
    held = chosen.client.sandbox.pay(_charge(chosen).emvqrcps, payer=chosen.payer, suspect="release")
    return "end_to_end_id", held.end_to_end_id


def _decide(chosen: Chosen, decision: Literal["take", "release"]) -> str:
    return chosen.client.sandbox.decide_infraction(_contest(chosen), decision).infraction_id


def _contest(chosen: Chosen) -> str:
    paid = chosen.client.sandbox.pay(_charge(chosen).emvqrcps, payer=chosen.payer)
    return chosen.client.sandbox.open_infraction(paid.end_to_end_id).infraction_id


RECIPES: Final[Mapping[EventName, Callable[[Chosen], Mark]]] = dict[EventName, Callable[[Chosen], Mark]](
    (
        ("qrcode.pending", lambda chosen: ("id", _charge(chosen).id)),
        ("qrcode.approved", charge_approved),
        ("qrcode.expired", charge_expired),
        ("transfer.in.processing", transfer_in),
        ("transfer.in.confirmed", transfer_in),
        ("transfer.in.error", transfer_in_refused),
        ("transfer.out.processing", transfer_out),
        ("transfer.out.confirmed", transfer_out),
        ("transfer.out.error", lambda chosen: ("id", _send(chosen, f"reject-{chosen.code.lower()}@sandbox.pix.example").id)),
        ("refund.in.processing", refund_in),
        ("refund.in.returned", refund_in),
        ("refund.in.error", refund_in_refused),
        ("refund.out.processing", lambda chosen: ("id", _refund(chosen).id)),
        ("refund.out.returned", lambda chosen: ("id", _refund(chosen).id)),
        ("refund.out.error", refund_out_rejected),
        ("movement.posted", lambda chosen: ("item_id", chosen.client.sandbox.move("wire", "IN", chosen.amount).id)),
        ("infraction.opened", lambda chosen: ("infraction_id", _contest(chosen))),
        ("infraction.answered", infraction_answered),
        ("infraction.taken", lambda chosen: ("infraction_id", _decide(chosen, "take"))),
        ("infraction.released", lambda chosen: ("infraction_id", _decide(chosen, "release"))),
        ("infraction.reminded", infraction_reminded),
        ("transfer.in.held", transfer_in_held),
    )
)


def follow(event: EventName, chosen: Chosen) -> Mark:
    """Cause an event; one that only an institution causes is refused."""
    recipe = RECIPES.get(event)
    if recipe is None:
        raise CommandError(f"EVENT: {event} happens on accounts at institutions only, and never in a sandbox")
    return recipe(chosen)


def _charge(chosen: Chosen) -> Charge:
    _refuse_taken(chosen, "charge", chosen.client.charges.get_by_external_id)
    return chosen.client.charges.create(chosen.amount, chosen.key, external_id=chosen.external_id)


def _send(chosen: Chosen, key: str) -> Transfer:
    _refuse_taken(chosen, "transfer", chosen.client.transfers.get_by_external_id)
    if chosen.client.balance().available_funds < chosen.amount:
        chosen.client.sandbox.deposit(chosen.amount)
    return chosen.client.transfers.create_by_key(chosen.amount, key, "EMAIL", external_id=chosen.external_id)


def _send_and_wait(chosen: Chosen) -> Transfer:
    sent = _send(chosen, _PAYEE_KEY)
    return _wait_while("PROCESSING", lambda: chosen.client.transfers.get(sent.id))


def _refund(chosen: Chosen) -> Refund:
    _refuse_taken(chosen, "refund", chosen.client.refunds.get_by_external_id)
    received = chosen.client.sandbox.receive(chosen.key, chosen.amount, payer=chosen.payer)
    return chosen.client.refunds.create(received.end_to_end_id, chosen.amount, external_id=chosen.external_id)


def _refuse_taken(chosen: Chosen, kind: str, read: Callable[[str], object]) -> None:
    # A replay would return the existing resource, and cause nothing.
    if chosen.external_id is None:
        return
    try:
        read(chosen.external_id)
    except NotFound:
        return
    raise CommandError(f"--external-id: there is a {kind} {chosen.external_id} already; nothing was done")


def _wait_while(status: str, read: Callable[[], Ended]) -> Ended:
    deadline_s = time.monotonic() + _SETTLED_WITHIN_S
    while (found := read()).status == status and time.monotonic() < deadline_s:
        time.sleep(_ASKED_AGAIN_AFTER_S)
    return found


@contextmanager
def _with_rule(client: Client, rule: FaultRule) -> Generator[None]:
    """Put a rule before the existing ones."""
    client.sandbox.replace_faults([rule, *client.sandbox.faults().rules])
    try:
        yield
    finally:
        # A used-up rule stays; another's may have come since.
        rules = client.sandbox.faults().rules
        left = [one for one in rules if (one.effect, one.match) != (rule.effect, rule.match)]
        client.sandbox.replace_faults(left)
