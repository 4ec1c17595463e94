"""The way to each event in a sandbox: real charges, transfers, refunds and rules, and never an invented event.

A recipe causes it and returns the identifying field of the payload, with its value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from pixconnect.doors.cli import terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.event import EventName
from pixconnect.platform.base.clock import format_local
from pixconnect_client import Charge, Client, FaultMatch, FaultOperation, FaultRule, NotFound, OutsidePayer, Refund, Transfer

AMOUNT_CENTS: Final = 1_000
_PAYEE_KEY: Final = "settle@sandbox.pix.example"
DAY_S: Final = 86_400
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


Mark = tuple[str, int | str]


class Recipe(Struct, frozen=True):
    event: EventName
    follow: Callable[[Chosen], Mark]


class Ending(Protocol):
    @property
    def status(self) -> str: ...


Ended = TypeVar("Ended", bound=Ending)


def charge_approved(chosen: Chosen) -> Mark:
    charge = make_charge(chosen)
    chosen.client.sandbox.pay(charge.emvqrcps, payer=chosen.payer)
    return "id", charge.id


def charge_expired(chosen: Chosen) -> Mark:
    charge = make_charge(chosen)
    # The lifetime of a charge is a setting of the service, which callers cannot read.
    for day in range(1, _DAYS_MAX + 1):
        now = chosen.client.sandbox.advance_clock(DAY_S).now
        if chosen.client.charges.get(charge.id).status == "EXPIRED":
            terminal.notice(f"the sandbox's clock is {day} d further, at {format_local(now)} (`pixconnect clock reset`)")
            return "id", charge.id
    raise CommandError(f"the charge {charge.id} lives for more than {_DAYS_MAX} days", status=ExitStatus.ENDED_BADLY)


def transfer_in(chosen: Chosen) -> Mark:
    paid = chosen.client.sandbox.receive(chosen.key, chosen.amount, payer=chosen.payer)
    return "end_to_end_id", paid.end_to_end_id


def transfer_in_refused(chosen: Chosen) -> Mark:
    # A charge accepts exactly its amount.
    paid = chosen.client.sandbox.pay(make_charge(chosen).emvqrcps, amount=chosen.amount + 1, payer=chosen.payer)
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
        wait_while("PROCESSING", lambda: chosen.client.refunds.get(refund.id))
    return "id", refund.id


_KERNEL: Final = (
    Recipe("qrcode.pending", lambda chosen: ("id", make_charge(chosen).id)),
    Recipe("qrcode.approved", charge_approved),
    Recipe("qrcode.expired", charge_expired),
    Recipe("transfer.in.processing", transfer_in),
    Recipe("transfer.in.confirmed", transfer_in),
    Recipe("transfer.in.error", transfer_in_refused),
    Recipe("transfer.out.processing", transfer_out),
    Recipe("transfer.out.confirmed", transfer_out),
    Recipe("transfer.out.error", lambda chosen: ("id", _send(chosen, f"reject-{chosen.code.lower()}@sandbox.pix.example").id)),
    Recipe("refund.in.processing", refund_in),
    Recipe("refund.in.returned", refund_in),
    Recipe("refund.in.error", refund_in_refused),
    Recipe("refund.out.processing", lambda chosen: ("id", _refund(chosen).id)),
    Recipe("refund.out.returned", lambda chosen: ("id", _refund(chosen).id)),
    Recipe("refund.out.error", refund_out_rejected),
    Recipe("movement.posted", lambda chosen: ("item_id", chosen.client.sandbox.move("wire", "IN", chosen.amount).id)),
)


def follow(event: EventName, chosen: Chosen) -> Mark:
    """Cause an event; one that only an institution causes is refused."""
    for recipe in (*_KERNEL, *gather("recipes", Recipe)):
        if recipe.event == event:
            return recipe.follow(chosen)
    raise CommandError(f"EVENT: {event} happens on accounts at institutions only, and never in a sandbox")


def make_charge(chosen: Chosen) -> Charge:
    _refuse_taken(chosen, "charge", chosen.client.charges.get_by_external_id)
    return chosen.client.charges.create(chosen.amount, chosen.key, external_id=chosen.external_id)


def _send(chosen: Chosen, key: str) -> Transfer:
    _refuse_taken(chosen, "transfer", chosen.client.transfers.get_by_external_id)
    if chosen.client.balance().available_funds < chosen.amount:
        chosen.client.sandbox.deposit(chosen.amount)
    return chosen.client.transfers.create_by_key(chosen.amount, key, "EMAIL", external_id=chosen.external_id)


def _send_and_wait(chosen: Chosen) -> Transfer:
    sent = _send(chosen, _PAYEE_KEY)
    return wait_while("PROCESSING", lambda: chosen.client.transfers.get(sent.id))


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


def wait_while(status: str, read: Callable[[], Ended]) -> Ended:
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
